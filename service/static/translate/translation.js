// The upper half of the page: a text and its translation.

import { Latest } from '../common/api.js';
import { sentenceOf } from './alignment.js';
import { makeCopy } from '../common/copy.js';
import { byId, changed, element, setText } from '../common/dom.js';
import { speaker } from '../common/strings.js';
import { UNPINNED } from '../common/state.js';
import { translate } from '../strings/translate.js';
import { translatedSentences } from './sentences.js';

const say = speaker(translate);

const TYPING_MILLISECONDS = 300;
const SPEAKING_MILLISECONDS = 900;

/** Translates while the reader types; passes on a text that is to be embedded. */
export class TranslationPanel {
  #latest = new Latest();
  /** @type {number|undefined} */
  #typing;
  /** @type {number|undefined} */
  #speaking;
  /** @type {Translation|null} */
  #result = null;

  /**
   * @param {Object} parts
   * @param {Store} parts.store
   * @param {Languages} parts.languages
   * @param {WordLights} parts.lights
   * @param {Notice} parts.notice
   * @param {CurlLine} parts.curl
   * @param {function(Translation|EmbeddedText|null): void} parts.translated Called with each whole result.
   */
  constructor(parts) {
    this.store = parts.store;
    this.languages = parts.languages;
    this.lights = parts.lights;
    this.notice = parts.notice;
    this.curl = parts.curl;
    this.translated = parts.translated;
    this.field = byId('text');
    this.output = byId('output');
    this.store.subscribe((view, before) => this.#update(view, before));
    this.field.addEventListener('input', () => this.#type());
    this.field.addEventListener('keydown', (event) => this.#hurry(event));
    byId('source').addEventListener('change', (event) => {
      this.#chooseSource(changed(event).value);
    });
    byId('target').addEventListener('change', (event) => {
      this.#choose({ target: changed(event).value });
    });
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
    this.#light([sentenceOf(item, level)]);
  }

  /** The translation on the page. */
  get #shown() {
    return this.store.view.wanted ?? this.#result?.own ?? '';
  }

  #choose(change) {
    this.store.set({ ...change, wanted: null, ...UNPINNED });
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
    else if (view.wanted !== before.wanted) this.#showChoice();
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
    this.output.classList.remove('growing');
    try {
      const body = { q: text, source, target, return_alignment: true };
      const isWhole = await this.#latest.run((signal) => this.#stream(body, signal));
      if (!isWhole) return;
      this.#settle(false);
      if (this.store.view.wanted === null) this.#finish();
      else this.#showChoice();
    } catch (error) {
      this.#settle(true);
      this.notice.show(/** @type {ApiError} */ (error), () => this.#translate());
    }
  }

  /** Shows each sentence of a translation as soon as it has come; true when all have come. */
  async #stream(body, signal) {
    for await (const sentence of translatedSentences(body, signal)) {
      if (signal.aborted) return false;
      if (sentence.sentence === 0) this.#begin(sentence);
      this.#add(sentence);
    }
    return true;
  }

  /** Ends the busy state; the translation of an older text, or a part of one, stays dim. */
  #settle(isStale) {
    this.output.setAttribute('aria-busy', 'false');
    this.output.classList.remove('growing');
    this.output.classList.toggle('stale', isStale);
    this.output.style.minHeight = '';
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

  /**
   * Replaces the shown translation by a new one, which has no sentence yet.
   * @param {import('./sentences.js').Sentence} first
   */
  #begin({ body, detectedLanguage }) {
    const { q: text, target } = body;
    const source = detectedLanguage?.language ?? body.source;
    this.#result = { text, source, target, own: '', sentences: [] };
    this.notice.hide();
    this.curl.show('translate', body);
    this.#tellLanguage(this.#result, detectedLanguage);
    this.#render(this.store.view);
    this.output.style.minHeight = `${this.output.offsetHeight}px`; // The page must not jump.
    this.output.classList.remove('stale');
    this.output.classList.add('growing');
    this.output.lang = target;
    if (this.store.view.wanted === null) this.lights.begin(text);
  }

  /** @param {import('./sentences.js').Sentence} sentence */
  #add({ translatedText, alignment = [] }) {
    const result = /** @type {Translation} */ (this.#result);
    result.own += translatedText;
    result.sentences.push(...alignment);
    if (this.store.view.wanted === null) this.lights.add(translatedText, alignment);
  }

  /** Shows the translation that the reader chose, or again the model's own. */
  #showChoice() {
    if (this.#result === null) return;
    this.#light(this.store.view.wanted === null ? this.#result.sentences : []);
    this.#finish();
  }

  #finish() {
    byId('after').hidden = false;
    this.#speak();
    this.translated(this.#result);
  }

  #light(sentences) {
    this.lights.begin(this.#result?.text ?? '');
    this.lights.add(this.#shown, sentences);
  }

  /** Announces the translation to screen readers after a pause in typing. */
  #speak() {
    clearTimeout(this.#speaking);
    const language = this.languages.name(this.#result?.target ?? '');
    const said = say('said', { language, text: this.#shown });
    this.#speaking = setTimeout(() => setText(byId('said'), said), SPEAKING_MILLISECONDS);
  }

  #tellLanguage({ source, target }, detected) {
    const language = this.languages.name(source);
    const found = say(detected?.confidence > 0 ? 'detected' : 'undetected', { language });
    setText(byId('detected'), detected ? found : '');
    byId('same').hidden = source !== target;
    if (source === target) this.#offerOther(language, this.languages.targetFor(source, target));
  }

  #offerOther(language, target) {
    const text = say('translateTo', { language: this.languages.name(target) });
    const onclick = () => this.#choose({ target });
    const button = element('button', { type: 'button', text, onclick });
    byId('same').replaceChildren(`${say('already', { language })} `, button);
  }
}
