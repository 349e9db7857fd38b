// Notices that explain an error to the reader and offer a way to continue.

import { common } from '../strings/common.js';
import { element, setText } from './dom.js';
import { speaker } from './strings.js';

const say = speaker(common);

const MIN_WAIT_SECONDS = 2;
const MAX_WAIT_SECONDS = 32; // Of the waits that double, where the server names none.

// The error types whose title stands in the table of texts.
const KNOWN = [
  ...['network', 'overloaded', 'too_large', 'unavailable', 'deadline_exceeded', 'internal'],
  ...['unsupported_language', 'invalid_request'],
];

// The types whose detail stands there too. For the others the page shows the server's own message.
const EXPLAINED = ['network', 'overloaded', 'deadline_exceeded', 'internal', 'gateway', 'page'];

// The types that end by themselves, such as with the restart of a server.
const PASSING = ['network', 'overloaded', 'unavailable', 'gateway'];

/** @type {Object<number, string>} */
const BY_STATUS = {
  ...{ 413: 'too_large', 429: 'overloaded', 500: 'failed', 502: 'gateway' },
  ...{ 503: 'unavailable', 504: 'deadline_exceeded' },
};

/**
 * Explains an error to the reader.
 * @param {ApiError} error
 * @param {number} numFailures The number of failures in a row, with this one.
 * @returns {{title: string, detail: string, wait: number|null}} The texts, and the seconds until an
 *     automatic retry.
 */
export function explain(error, numFailures = 1) {
  const type = typeOf(error);
  const usual = Math.min(MAX_WAIT_SECONDS, MIN_WAIT_SECONDS * 2 ** (numFailures - 1));
  const wait = Math.max(MIN_WAIT_SECONDS, error.retryAfter ?? usual);
  return {
    title: say(`${type}_title`),
    detail: EXPLAINED.includes(type)
      ? say(`${type}_detail`)
      : sentence(error.message) || say('again_detail'),
    wait: PASSING.includes(type) ? wait : null,
  };
}

/** Returns the name of an error in the table of texts. */
function typeOf({ type, status }) {
  if (KNOWN.includes(type)) return type;
  if (status === undefined) return 'page';
  return BY_STATUS[status] ?? (status < 500 ? 'invalid_request' : 'failed');
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
  #numFailures = 0;

  /** @param {HTMLElement} root Empty element; it is hidden while there is no notice. */
  constructor(root = element('div', { class: 'notice', hidden: true })) {
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
    this.#numFailures += 1;
    const { title, detail, wait } = explain(error, this.#numFailures);
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

  /**
   * Runs an operation, and passes on its result; a failure is shown, and can be tried again.
   * @template T
   * @param {import('./api.js').Latest} latest
   * @param {function(AbortSignal): Promise<T>} work
   * @param {function(T): void} done
   * @returns {Promise<boolean>} Whether no newer operation began.
   */
  async guard(latest, work, done) {
    try {
      const found = await latest.run(work);
      if (found === undefined) return false;
      this.hide();
      done(found);
    } catch (error) {
      this.show(/** @type {ApiError} */ (error), () => this.guard(latest, work, done));
    }
    return true;
  }

  /** Hides the notice. */
  hide() {
    this.#reset();
    this.#numFailures = 0;
    this.root.hidden = true;
    setText(this.title, '');
    setText(this.detail, '');
  }

  #reset() {
    clearTimeout(this.#timer);
    setText(this.countdown, '');
    this.again.disabled = false;
    this.#retry = null;
  }

  #again() {
    const retry = this.#retry;
    this.#reset();
    if (retry === null) return;
    this.again.disabled = true;
    setText(this.countdown, say('trying'));
    retry();
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
