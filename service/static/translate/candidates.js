// The likeliest tokens at the place of a word of the translation, with their probabilities.

import { Latest, post } from '../common/api.js';
import { byId, element, within } from '../common/dom.js';
import { speaker } from '../common/strings.js';
import { percent, splitMark, spoken } from '../common/text.js';
import { translate } from '../strings/translate.js';

const say = speaker(translate);
const NUM_TOKENS = 5;

/** A list below the translation, for the word that the reader has chosen. */
export class Candidates {
  #latest = new Latest();
  /** @type {HTMLElement|null} */
  #node = null;

  /** Called when the reader closes the list. */
  closed = () => {};

  constructor() {
    this.root = byId('candidates');
    this.content = within(this.root, 'div');
    within(this.root, 'button').addEventListener('click', () => this.#close());
    this.root.addEventListener('keydown', (event) => event.key === 'Escape' && this.#close());
    document.addEventListener('click', (event) => {
      const target = /** @type {Node} */ (event.target);
      const isInside = [this.root, this.#node?.parentNode].some((place) => place?.contains(target));
      if (this.root.hidden || isInside) return;
      if (byId('look-fold').contains(target)) this.hide(); // It uses the pin.
      else this.closed();
    });
  }

  #close() {
    this.closed();
    this.#node?.focus();
  }

  /**
   * Shows the likeliest tokens at the place of a word.
   * @param {HTMLElement} node The word.
   * @param {Json} sentence Its sentence, its first code point there, and what goes on from a prefix.
   */
  async show(node, { text, source, target, translated, start, choose }) {
    this.#node = node;
    this.root.hidden = false;
    this.content.replaceChildren(element('p', { text: say('candidatesLoading') }));
    const body = {
      ...{ text, source, target, target_text: translated },
      ...{ kinds: ['cross'], level: 'word', top_k: 1, probabilities: { top_k: NUM_TOKENS } },
    };
    try {
      const reply = await this.#latest.run((signal) => post('attention', body, signal));
      if (reply === undefined) return;
      const go = (prefix) => choose(prefix).catch(() => this.#fail('candidatesRefused'));
      this.content.replaceChildren(...described(reply.items[0], start, node.textContent ?? '', go));
      this.root.scrollIntoView({ block: 'nearest' });
    } catch {
      this.#fail('candidatesFailed');
    }
  }

  #fail(name) {
    const hasFocus = this.root.contains(document.activeElement);
    this.content.replaceChildren(element('p', { text: say(name) }));
    if (hasFocus) within(this.root, 'button').focus(); // The chosen button is gone.
  }

  /** Hides the list. */
  hide() {
    this.#latest.cancel();
    this.root.hidden = true;
  }
}

/** Describes the tokens at the start of a word; a click on one calls `go` with the text up to it. */
function described({ target, probabilities }, start, word, go) {
  const index = target.offsets.findIndex(([, end]) => end > start); // A protected span is several words.
  const ids = target.ids.map((id) => (Array.isArray(id) ? id : [id]));
  const at = ids.slice(0, index).reduce((sum, tokens) => sum + tokens.length, 0);
  const { log_probs, likeliest } = probabilities;
  const own = likeliest.ids[at].indexOf(ids[index][0]);
  const piece = own < 0 ? word : spoken(likeliest.tokens[at][own]);
  const isPart = ids[index].length > 1;
  const title = say(isPart ? 'candidatesPiece' : 'candidatesWord', {
    ...{ word, piece, share: percent(Math.exp(log_probs[at])) },
  });
  const items = likeliest.tokens[at].map((token, rank) => {
    const share = likeliest.log_probs[at][rank];
    const act = token === '</s>' || rank === own ? null : () => go(upTo(target, index, token));
    return item(spoken(token), share === null ? 0 : Math.exp(share), rank === own, act);
  });
  const hint = element('p', { text: say('candidatesGo') });
  return [element('p', { text: title }), element('ol', {}, ...items), hint];
}

/** Returns the translation up to a word, and a token in place of the word. */
function upTo({ text, offsets }, index, token) {
  const before = [...text].slice(0, offsets[index][0]).join('').trimEnd();
  const [mark, rest] = splitMark(token);
  return before + (mark && before ? ' ' : '') + rest;
}

function item(name, share, isOwn, act) {
  const filled = element('i', { 'aria-hidden': 'true' });
  filled.style.setProperty('--share', share.toFixed(4));
  const number = element('span', { text: percent(share) });
  const attributes = { class: isOwn ? 'own' : null, 'aria-current': isOwn ? 'true' : null };
  const label = act
    ? element('button', { type: 'button', text: name, onclick: act })
    : element('span', { text: name });
  return element('li', attributes, label, filled, number);
}
