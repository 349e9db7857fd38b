// The end of the story: a summary that links back to the steps, and examples that open views.

import { element } from '../common/dom.js';
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
  return element(
    'section',
    { id: 'more', 'aria-labelledby': 'more-title' },
    element('h2', { id: 'more-title', text: say('examplesTitle') }),
    element('ul', { class: 'more' }, ...stories),
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
  };
  return element('a', { href, text, onclick });
}
