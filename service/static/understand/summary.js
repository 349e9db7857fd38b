// The end of the story: a summary that links back to the steps, and examples that open views.

import { byId, element } from '../common/dom.js';
import { DEFAULTS, toFragment } from '../common/state.js';
import { speaker } from '../common/strings.js';
import { summary } from '../strings/summary.js';

const say = speaker(summary);

const SENTENCES = ['roles', 'softmax', 'sum', 'heads', 'words'];

/** The examples that open a step of the story: a name, and the part of the view that it sets. */
const EXAMPLES = [
  { name: 'kids', view: { step: 'roles' } },
  { name: 'nlp', view: { step: 'sum' } },
  { name: 'hi', view: { step: 'softmax' } },
  { name: 'action', view: { step: 'scores' } },
];
const TRANSLATED = Object.freeze({
  ...{ way: 'translate', task: 'translate', source: 'en', target: 'pt', sentence: 0, wanted: null },
  ...{ look: true, kind: 'encoder', level: 'word', norm: 'weights', layer: 1, search: false },
});

/** The examples that open Translate: a head, and the tokens that are pinned in it. */
const LOOKS = [
  { name: 'pool', view: { head: 1, query: 0, key: 3, search: true } },
  { name: 'translate', view: { head: 5, query: null, key: null } },
];

/** Returns the summary and the examples, as sections of the page. */
export function endOf(store) {
  return [summarySection(store), examplesSection(store)];
}

function summarySection(store) {
  const sentences = SENTENCES.map((step) =>
    element('li', {}, say(step), ' ', viewLink(store, { step }, say(`${step}Link`))),
  );
  return element(
    'section',
    { id: 'summary', 'aria-labelledby': 'summary-title' },
    element('h2', { id: 'summary-title', text: say('title') }),
    element('ol', { class: 'points' }, ...sentences),
  );
}

function examplesSection(store) {
  const stories = EXAMPLES.map(({ name, view }) =>
    example(store, name, { lesson: say(`${name}Text`), token: null, ...view }),
  );
  const looks = LOOKS.map(({ name, view }) =>
    example(store, name, { ...TRANSLATED, ...view, text: say(`${name}Text`) }),
  );
  return element(
    'section',
    { id: 'more', 'aria-labelledby': 'more-title' },
    element('h2', { id: 'more-title', text: say('examplesTitle') }),
    element('ul', { class: 'more' }, ...stories, ...looks),
  );
}

function example(store, name, view) {
  const link = viewLink(store, view, say(`${name}Text`));
  link.lang = 'en';
  return element('li', {}, link, element('p', { text: say(`${name}Caption`) }));
}

/** Returns a link that changes a part of the view; its address opens the same in another tab. */
function viewLink(store, change, text) {
  const href = `#${toFragment({ ...DEFAULTS, way: 'understand', ...change })}`;
  const onclick = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (change.step === store.view.step) store.set({ step: null }); // It scrolls there again.
    store.set(change);
    if (change.search) scrollWhenReady(byId('search'));
    else if (change.way === 'translate') scrollTo(0, 0);
  };
  return element('a', { href, text, onclick });
}

/** Scrolls to a part of Look inside when its attention is shown, unless the reader moves before. */
function scrollWhenReady(node) {
  scrollTo(0, 0);
  const look = byId('look');
  const stop = new AbortController();
  const observer = new MutationObserver(() => {
    if (look.getAttribute('aria-busy') !== 'false' || node.offsetHeight === 0) return;
    node.scrollIntoView();
    stop.abort();
  });
  observer.observe(look, { attributes: true, attributeFilter: ['aria-busy'] });
  stop.signal.addEventListener('abort', () => observer.disconnect());
  for (const name of ['wheel', 'touchmove', 'pointerdown', 'keydown'])
    addEventListener(name, () => stop.abort(), { signal: stop.signal, passive: true });
}
