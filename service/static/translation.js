// The upper half of the page: a text and its translation.

import { Latest, post } from './api.js';
import { readAlignment, sentenceOf, UNALIGNED } from './alignment.js';
import { makeCopy } from './copy.js';
import { byId, element, setText } from './dom.js';

const TYPING_MILLISECONDS = 300;
const SPEAKING_MILLISECONDS = 900;

/**
 * A text and its translation.
 * @typedef {Object} Translation
 * @property {string} text
 * @property {string} source The chosen or detected language.
 * @property {string} target
 * @property {string} own The model's own translation.
 * @property {Array} sentences The sentences with their alignments.
 */

/**
 * A text that a model embeds.
 * @typedef {{task: 'embed', text: string, model: string|null, sentences: []}} Embedded
 */

/** Translates while the reader types; passes on a text that is to be embedded. */
export class TranslationPanel {
  #latest = new Latest();
  #typing = null;
  #speaking = null;
  /** @type {Translation|null} */
  #result = null;

  /**
   * @param {Object} parts
   * @param {Store} parts.store
   * @param {Languages} parts.languages
   * @param {WordLights} parts.lights
   * @param {Notice} parts.notice
   * @param {CurlLine} parts.curl
   * @param {function(Translation|Embedded|null): void} parts.translated Called with each new result.
   */
  constructor(parts) {
    Object.assign(this, parts);
    this.field = byId('text');
    this.output = byId('output');
    this.store.subscribe((view, before) => this.#update(view, before));
    this.field.addEventListener('input', () => this.#type());
    this.field.addEventListener('keydown', (event) => this.#hurry(event));
    byId('source').addEventListener('change', (event) => this.#chooseSource(event.target.value));
    byId('target').addEventListener('change', (event) =>
      this.#choose({ target: event.target.value }),
    );
    byId('swap').addEventListener('click', () => this.#swap());
    byId('clear').addEventListener('click', () => this.#clear());
    makeCopy(byId('copy'), () => this.#shown);
  }

  /** Shows a view that a link has opened. */
  restore() {
    const { view } = this.store;
    this.field.value = view.text;
    this.lights.showText(view.text);
    this.#render(view);
    this.#translate();
  }

  /** Translates a text as if it had been pasted. */
  take(text, source) {
    const target = this.languages.targetFor(source, this.store.view.target);
    this.#choose({ text, source, target, sentence: 0 });
  }

  /** Shows the alignment of a translation that the reader chose in place of the model's own. */
  alignWanted(item, level) {
    if (this.#result === null || this.#shown !== item.target.text) return;
    this.#light(readAlignment(this.#result.text, this.#shown, [sentenceOf(item, level)]));
  }

  /** The translation on the page. */
  get #shown() {
    return this.store.view.wanted ?? this.#result?.own ?? '';
  }

  #choose(change) {
    this.store.set({ ...change, wanted: null, query: null });
  }

  #chooseSource(source) {
    this.#choose({ source, target: this.languages.targetFor(source, this.store.view.target) });
  }

  #type() {
    this.lights.showText(this.field.value);
    this.#choose({ text: this.field.value, sentence: 0 });
  }

  #clear() {
    this.#choose({ text: '', sentence: 0 });
    this.field.focus();
  }

  #hurry(event) {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    this.#translate();
  }

  #swap() {
    const { source, target, text } = this.store.view;
    const heard = source === 'auto' ? this.#result?.source : source;
    const back = this.languages.targetFor(target, heard);
    this.#choose({ text: this.#shown || text, source: target, target: back, sentence: 0 });
  }

  #update(view, before) {
    const read = ['task', 'model', 'text', 'source', 'target'];
    const isOther = read.some((name) => view[name] !== before[name]);
    if (isOther) this.#schedule(view);
    else if (view.wanted !== before.wanted) this.#showResult();
    this.#render(view);
  }

  /** Translates at once, or after a pause while the reader types. */
  #schedule(view) {
    const isTyped = this.field.value === view.text && document.activeElement === this.field;
    if (this.field.value !== view.text) {
      this.field.value = view.text;
      this.lights.showText(view.text);
    }
    this.#latest.cancel();
    clearTimeout(this.#typing);
    if (isTyped && view.text)
      this.#typing = setTimeout(() => this.#translate(), TYPING_MILLISECONDS);
    else this.#translate();
  }

  #render(view) {
    this.languages.render(byId('source'), byId('target'), view);
    this.field.lang = view.source === 'auto' ? (this.#result?.source ?? '') : view.source;
    byId('clear').hidden = view.text === '';
  }

  async #translate() {
    clearTimeout(this.#typing);
    const { task, model, text, source, target } = this.store.view;
    if (text.trim() === '') {
      this.#empty(null);
      return;
    }
    if (task === 'embed') {
      this.#empty({ task, text, model, sentences: [] });
      return;
    }
    this.output.setAttribute('aria-busy', 'true');
    try {
      const body = { q: text, source, target, return_alignment: true };
      const answered = await this.#latest.run((signal) => askFor(body, signal));
      if (answered === undefined) return;
      this.#settle(false);
      this.#take(answered.body, answered.reply);
    } catch (error) {
      this.#settle(true);
      this.notice.show(error, () => this.#translate());
    }
  }

  /** Ends the busy state; the translation of an older text stays dim. */
  #settle(isStale) {
    this.output.setAttribute('aria-busy', 'false');
    this.output.classList.toggle('stale', isStale);
  }

  /** Removes the translation, for a text to embed or for no text. */
  #empty(embedded) {
    this.#latest.cancel();
    clearTimeout(this.#speaking);
    this.#result = null;
    this.output.replaceChildren();
    this.#settle(false);
    setText(byId('detected'), '');
    for (const id of ['same', 'after']) byId(id).hidden = true;
    this.notice.hide();
    this.curl.hide();
    this.translated(embedded);
  }

  #take(body, reply) {
    const { q: text, target } = body;
    const source = reply.detectedLanguage?.language ?? body.source;
    const sentences = reply.alignment ?? [];
    this.#result = { text, source, target, own: reply.translatedText, sentences };
    this.notice.hide();
    this.curl.show('translate', body);
    this.#tellLanguage(reply.detectedLanguage);
    this.#render(this.store.view);
    this.#showResult();
  }

  #showResult() {
    if (this.#result === null) return;
    const { text, own, target, sentences } = this.#result;
    const isOwn = this.store.view.wanted === null;
    this.output.lang = target;
    this.#light(isOwn ? readAlignment(text, own, sentences) : UNALIGNED);
    byId('after').hidden = false;
    this.#speak();
    this.translated(this.#result);
  }

  #light(alignment) {
    this.lights.show(this.#result.text, this.#shown, alignment);
  }

  /** Announces the translation to screen readers after a pause in typing. */
  #speak() {
    clearTimeout(this.#speaking);
    const said = `${this.languages.name(this.#result.target)}: ${this.#shown}`;
    this.#speaking = setTimeout(() => setText(byId('said'), said), SPEAKING_MILLISECONDS);
  }

  #tellLanguage(detected) {
    const { source, target } = this.#result;
    const name = this.languages.name(source);
    const found = detected?.confidence > 0 ? `${name} detected` : 'No language detected';
    setText(byId('detected'), detected ? found : '');
    byId('same').hidden = source !== target;
    if (source === target) this.#offerOther(name, this.languages.targetFor(source, target));
  }

  #offerOther(name, target) {
    const text = `Translate to ${this.languages.name(target)}`;
    const onclick = () => this.#choose({ target });
    const button = element('button', { type: 'button', text, onclick });
    byId('same').replaceChildren(`This is ${name} already. `, button);
  }
}

/** Joins a reply and its request; a text that goes through two models has no aligned words. */
async function askFor(body, signal) {
  try {
    return { body, reply: await post('translate', body, signal) };
  } catch (error) {
    if (error.type !== 'invalid_request') throw error;
    const plain = { ...body, return_alignment: undefined };
    return { body: plain, reply: await post('translate', plain, signal) };
  }
}
