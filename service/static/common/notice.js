// Notices that explain an error to the reader and offer a way to continue.

import { common } from '../strings/common.js';
import { element, setText } from './dom.js';
import { speaker } from './strings.js';

const say = speaker(common);

const MIN_WAIT_SECONDS = 2;

// The error types whose title stands in the table of texts.
const KNOWN = [
  'network',
  'overloaded',
  'too_large',
  'unavailable',
  'deadline_exceeded',
  'internal',
  'unsupported_language',
  'invalid_request',
];

// The types whose detail stands there too. For the others the page shows the server's own message.
const EXPLAINED = ['network', 'overloaded', 'deadline_exceeded', 'internal', 'unknown'];

/** @type {Object<number, string>} */
const BY_STATUS = {
  413: 'too_large',
  429: 'overloaded',
  503: 'unavailable',
  504: 'deadline_exceeded',
};

/**
 * Explains an error to the reader.
 * @param {ApiError} error
 * @returns {{title: string, detail: string, wait: number|null}} The texts, and the seconds until an
 *     automatic retry.
 */
export function explain(error) {
  const type = KNOWN.includes(error.type) ? error.type : (BY_STATUS[error.status] ?? 'unknown');
  const isPassing = ['overloaded', 'unavailable'].includes(type);
  return {
    title: say(`${type}_title`),
    detail: EXPLAINED.includes(type)
      ? say(`${type}_detail`)
      : sentence(error.message) || say('unknown_detail'),
    wait:
      isPassing && error.retryAfter !== null ? Math.max(MIN_WAIT_SECONDS, error.retryAfter) : null,
  };
}

/** Returns a message for a visitor, without its advice for the operator of the server. */
function sentence(message) {
  const advice = /[^.;:,]*\bREGARD_[A-Z_]+[^.;]*[.;]?/g;
  const plain = message.replace(/^Invalid request: /, '').replace(advice, '').replace(/[\s,:;]+$/, '');
  if (!plain) return '';
  return plain[0].toUpperCase() + plain.slice(1) + (/[.!?]$/.test(plain) ? '' : '.');
}

/** Shows one notice at a time, with a button to try again. */
export class Notice {
  /** @type {number|undefined} */
  #timer;
  /** @type {(function(): void)|null} */
  #retry = null;
  #isNetwork = false;

  /** @param {HTMLElement} root Empty element; it is hidden while there is no notice. */
  constructor(root) {
    this.root = root;
    this.title = element('strong');
    this.detail = element('span');
    this.reference = element('small');
    this.countdown = element('span', { class: 'countdown' });
    this.again = element('button', { type: 'button', onclick: () => this.#again() });
    this.extra = element('button', { type: 'button' });
    const words = element('p', { role: 'alert' }, this.title, ' ', this.detail);
    const actions = element('p', { class: 'actions' }, this.again, this.extra, this.countdown);
    root.replaceChildren(words, actions, this.reference);
    window.addEventListener('online', () => this.#isNetwork && this.#again());
  }

  /**
   * Shows an error.
   * @param {ApiError} error
   * @param {function(): void} retry
   * @param {{label: string, act: function(): void}|null} way Another way to continue, if any.
   */
  show(error, retry, way = null) {
    if (!('status' in error)) console.error(error); // An error of the page itself.
    const { title, detail, wait } = explain(error);
    this.#reset();
    this.#retry = retry;
    this.#isNetwork = error.type === 'network';
    setText(this.title, title);
    setText(this.detail, detail);
    setText(this.again, say(wait === null ? 'tryAgain' : 'tryNow'));
    setText(this.reference, error.requestId ? say('reference', { id: error.requestId }) : '');
    this.extra.hidden = way === null;
    if (way) setText(this.extra, way.label);
    this.extra.onclick = way?.act ?? null;
    this.root.hidden = false;
    if (wait !== null) this.#count(wait);
  }

  /** Hides the notice. */
  hide() {
    this.#reset();
    this.root.hidden = true;
    setText(this.title, '');
    setText(this.detail, '');
  }

  #reset() {
    clearTimeout(this.#timer);
    setText(this.countdown, '');
    this.#retry = null;
  }

  #again() {
    const retry = this.#retry;
    this.#reset();
    retry?.();
  }

  #count(seconds) {
    if (seconds <= 0) {
      this.#again();
      return;
    }
    setText(this.countdown, say('countdown', { seconds }));
    this.#timer = setTimeout(() => this.#count(seconds - 1), 1000);
  }
}
