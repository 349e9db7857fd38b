// The test of causes: the probability of “eles” without a head, or without a word.

import { post } from '../common/api.js';
import { element, folded } from '../common/dom.js';
import { speaker } from '../common/strings.js';
import { percent } from '../common/text.js';
import { cause } from '../strings/cause.js';
import { FORMS, TRANSLATOR_HEAD, wordsOf } from './kids.js';
import { scrolling } from './table.js';

const say = speaker(cause);

const WORDS = ['kids', 'they'];
const WRITTEN = '▁eles';

/**
 * The sentence without one part.
 * @typedef {{name: string, likely: number, translation: string}} Trial
 */

/** Returns the request that switches off the translator's head, and two of the words. */
export function causeBody() {
  const [{ text }] = FORMS;
  const words = wordsOf(text);
  const { layer, head, subject } = TRANSLATOR_HEAD;
  const off = { heads: [{ kind: 'encoder', layers: [layer], heads: [head] }] };
  const knockouts = WORDS.map((word) => ({ source_words: [words.indexOf(word)] }));
  return { text, ...subject, translate: true, knockouts: [{}, off, ...knockouts] };
}

/**
 * Requests the trials: nothing off, the head, and each of the words.
 * @returns {Promise<Trial[]|null>} null if the translation does not say “eles”.
 */
export async function readCause(signal) {
  const { target, knockouts } = await post('attention/knockout', causeBody(), signal);
  const place = target.tokens.indexOf(WRITTEN);
  if (place < 0) return null;
  const { layer, head } = TRANSLATOR_HEAD;
  const names = [
    say('nothing'),
    say('head', { layer: layer + 1, head: head + 1 }),
    ...WORDS.map((word) => say('word', { word })),
  ];
  return knockouts.map(({ log_probs: logs, translation }, index) => ({
    name: names[index],
    likely: Math.exp(logs[place] ?? -Infinity),
    translation: translation.text,
  }));
}

/** A fold with a table of the trials, and a conclusion from each. */
export class Cause {
  constructor() {
    this.table = element('table');
    this.verdicts = element('ul', { class: 'points' });
    this.root = folded(
      say('title'),
      element('p', { text: say('lead') }),
      scrolling(say('caption'), this.table),
      this.verdicts,
    );
    Object.assign(this.root, { id: 'cause', hidden: true });
  }

  /**
   * Shows the trials.
   * @param {Trial[]|null} trials null shows nothing.
   * @param {number} share The share of `they` that the head gives to `kids`.
   */
  show(trials, share) {
    this.root.hidden = trials === null;
    if (trials === null) return;
    const names = [say('without'), say('likely'), say('translation')];
    const head = element('tr', {}, ...names.map((text) => element('th', { scope: 'col', text })));
    this.table.replaceChildren(
      element('caption', { text: say('caption') }),
      element('thead', {}, head),
      element('tbody', {}, ...trials.map(rowOf)),
    );
    const points = verdicts(trials, share).map((text) => element('li', { text }));
    this.verdicts.replaceChildren(...points);
  }
}

function rowOf({ name, likely, translation }) {
  return element(
    'tr',
    {},
    element('th', { scope: 'row', text: name }),
    element('td', { text: percent(likely) }),
    element('td', { lang: 'pt', text: translation }),
  );
}

/** Says what the head does, and which words the model needs: half as likely without them. */
function verdicts(trials, share) {
  const [whole, head, ...words] = trials;
  const isSame = head.translation === whole.translation;
  const needed = words
    .map(({ likely }, index) => ({ word: WORDS[index], likely }))
    .filter(({ likely }) => likely < whole.likely / 2)
    .map(({ word, likely }) => {
      const [before, after] = [percent(whole.likely), percent(likely)];
      return say('needed', { word, before, after });
    });
  const isMore = percent(head.likely) !== percent(whole.likely) && head.likely > whole.likely;
  return [
    isSame ? say('headSame', { share: percent(share) }) : say('headOther'),
    ...(isMore ? [say('headMore')] : []),
    ...needed,
  ];
}
