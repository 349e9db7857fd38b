// A sentence of the opening, and below it in words at what one of its words looks.

import { element, setText } from '../common/dom.js';
import { saveButtons } from '../common/export.js';
import { pictureOf } from '../common/picture.js';
import { speaker } from '../common/strings.js';
import { percent } from '../common/text.js';
import { opening } from '../strings/opening.js';
import * as kids from './kids.js';
import { Scene } from './scene.js';

const say = speaker(opening);

/**
 * What a head does with the four sentences.
 * @typedef {Object} Answer
 * @property {import('./kids.js').KnownHead} known
 * @property {any} model
 * @property {Map<string, import('./kids.js').HeadReading>} readings The readings by sentence.
 */

/** A sentence with an arc, and the sentences about that arc. */
export class Reading {
  /**
   * @param {'first'|'second'} name
   * @param {function(number): void} choose Called with the number of a word that is clicked.
   * @param {...Element} actions Shown directly below the sentence. The sentences about the arc come
   *     after them: these arrive late, and would move the actions while a reader clicks.
   */
  constructor(name, choose, ...actions) {
    this.scene = new Scene(name, name === 'first', choose);
    this.readout = element('p', { class: 'readout', role: 'status', text: say('waiting') });
    this.place = element('p', { class: 'hint place' });
    this.verdict = element('p', { class: 'verdict' });
    this.root = element(
      'div',
      { class: 'reading' },
      this.scene.root,
      ...actions,
      this.readout,
      this.place,
      this.verdict,
      saveButtons(() => `regard-arc-${name}`, () => pictureOf(this.root)),
    );
  }

  /** Hides or shows the sentence and its numbers; the actions stay. */
  hide(isHidden) {
    const parts = [this.scene.root, this.readout, this.place, this.verdict];
    for (const part of parts) part.hidden = isHidden;
  }

  /** Shows a sentence before its numbers are known. */
  read(text, from) {
    this.scene.read(text, from);
  }

  /**
   * Shows the largest share of a word.
   * @param {Answer} answer
   * @param {{text: string}} sentence
   * @param {number} from The number of the word.
   * @param {function(string): string} judge Says what the word means at which `they` looks.
   */
  show({ known, readings }, { text }, from, judge) {
    const reading = /** @type {import('./kids.js').HeadReading} */ (readings.get(text));
    const [{ word, index, share }] = reading.shares[from];
    const marks = reading.marksOf(from);
    const isIdle = marks > share;
    this.scene.point({ from, to: index, share });
    const name = kids.wordsOf(text)[from];
    const found = { name, word, share: percent(isIdle ? marks : share) };
    setText(this.readout, say(isIdle ? 'readsMark' : 'reads', found));
    const place = { head: known.head + 1, layer: known.layer + 1 };
    const isEmbedder = known === kids.EMBEDDER_HEAD;
    const kind = say(isEmbedder ? 'embedder' : 'translator', { model: known.model });
    const isThey = from === kids.placeOfThey(text);
    const other = word === 'kids' ? 'lions' : 'kids';
    const rest = { kind, other, share: percent(reading.shareOf(other)) };
    setText(this.place, say(isThey ? 'place' : 'placeAny', { ...place, ...rest }));
    setText(this.verdict, isThey ? judge(word) : anyVerdict(isIdle, word, share));
  }
}

/** Says that the head was chosen for `they`, and why a word looks at a mark that is no word. */
function anyVerdict(isIdle, word, share) {
  const idle = isIdle ? `${say('idle', { word, share: percent(share) })} ` : '';
  return `${idle}${say('back')}`;
}
