// The sentence of the story and its token: a line that names them, and a fold to choose others.

import { element, folded, renderRadios, setText } from '../common/dom.js';
import { speaker } from '../common/strings.js';
import { spoken, tokenName } from '../common/text.js';
import { story } from '../strings/story.js';

const say = speaker(story);

/** Characters of the longest sentence. */
export const MOST_CHARACTERS = 120;

/** The language of the sentence. */
export const SOURCE = 'en';

/** The sentence of the story, and the token that the story follows. */
export class Lesson {
  /**
   * @param {function(string): void} use Called with the sentence that the reader writes.
   * @param {function(number): void} follow Called with the number of the token that the reader chooses.
   */
  constructor(use, follow) {
    this.follow = follow;
    this.field = element('input', {
      ...{ id: 'lesson', type: 'text', lang: SOURCE, maxlength: MOST_CHARACTERS },
      ...{ autocomplete: 'off', spellcheck: 'false' },
    });
    const onsubmit = (event) => {
      event.preventDefault();
      use(this.field.value.trim());
    };
    const form = element(
      'form',
      { class: 'lesson', onsubmit },
      element('label', { for: 'lesson', text: say('sentence') }),
      this.field,
      element('button', { type: 'submit', text: say('use') }),
    );
    this.line = element('p', { class: 'followed', hidden: true });
    this.chips = element(
      'fieldset',
      { class: 'chips' },
      element('legend', { class: 'unseen', text: say('follow') }),
    );
    const hint = element('p', { class: 'hint', text: say('chooseText') });
    this.fold = folded(say('choose'), form, this.chips, hint);
    this.root = element('div', { id: 'choice' }, this.line, this.fold);
  }

  /** Writes a sentence into the field before its numbers are known. */
  read(text) {
    if (this.field.value !== text) this.field.value = text;
  }

  /**
   * Shows the tokens of the sentence, and the one that the story follows.
   * @param {{text: string, tokens: string[], token: number}|null} facts Null if there is no story.
   * @param {boolean} isOwn Whether the reader has written the sentence.
   */
  show(facts, isOwn = false) {
    this.line.hidden = facts === null;
    this.chips.hidden = facts === null;
    if (facts === null) return;
    const { text, tokens, token } = facts;
    setText(this.line, say(isOwn ? 'follows' : 'followsOpening', { token: spoken(tokens[token]), text }));
    const options = tokens.map((name, index) => ({ value: String(index), label: tokenName(name) }));
    renderRadios(this.chips, 'token', options, String(token), (value) => this.follow(Number(value)), 'chip');
  }
}
