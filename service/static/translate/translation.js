// The upper half of the page: a text and its translation.

import { Latest, connectionLost, errorOf, post, postForLines } from '../common/api.js';
import { makeCopy } from '../common/copy.js';
import { byId, changed, setStale, setText } from '../common/dom.js';
import { speaker } from '../common/strings.js';
import { linkTo } from '../common/address.js';
import { FIRST, UNPINNED, chooseFor, chosenFor } from '../common/state.js';
import { cutOut } from '../common/text.js';
import { translate } from '../strings/translate.js';
import { withChosen } from './alignment.js';
import { Hints } from './hints.js';
import { PASTED } from './limit.js';

const say = speaker(translate);
const TYPING_MILLISECONDS = 300;
const SPEAKING_MILLISECONDS = 900;
const SURE_PERCENT = 60; // A target changes by itself only for a language as sure as this.
const AFTER = ['copy', 'share', 'listen', 'others', 'own']; // The buttons below a translation.

/**
 * A translated sentence, with the white space around it.
 * @typedef {Object} Sentence
 * @property {number} sentence Its index in the text.
 * @property {string} translatedText
 * @property {AlignedSentence[]} [alignment] With words in code points of the whole texts.
 * @property {Detected} [detectedLanguage] Of the first sentence, if it was detected.
 * @property {Json} body The request.
 */

/** Translates while the reader types; passes on a text that is to be embedded. */
export class TranslationPanel {
  #latest = new Latest();
  #aligning = new Latest();
  /** @type {number|undefined} */
  #typing;
  /** @type {number|undefined} */
  #speaking;
  /** @type {Translation|null} */
  #result = null;
  #detected = '';
  #isWhole = false;
  #mayFlip = true;
  /** @type {SpeechSynthesisUtterance|null} */
  #speech = null;
  #keepsHint = false;
  /**
   * The text that an example or Clear has replaced, until the reader types.
   * @type {{text: string, source: string, target: string}|null}
   */
  #replaced = null;

  /**
   * @param {Object} parts
   * @param {Store} parts.store
   * @param {Languages} parts.languages
   * @param {WordLights} parts.lights
   * @param {import('./limit.js').TextLimit} parts.limit
   * @param {import('./candidates.js').Candidates} parts.candidates
   * @param {Notice} parts.notice
   * @param {CurlLine} parts.curl
   * @param {function(Translation|EmbeddedText|null): void} parts.translated Called with each whole result.
   */
  constructor(parts) {
    this.store = parts.store;
    this.languages = parts.languages;
    this.lights = parts.lights;
    this.limit = parts.limit;
    this.candidates = parts.candidates;
    this.notice = parts.notice;
    this.curl = parts.curl;
    this.translated = parts.translated;
    this.hints = new Hints(parts.languages);
    this.field = byId('text');
    this.output = byId('output');
    this.store.subscribe((view, before) => this.#update(view, before));
    this.lights.chosen = (word) => this.#chooseWord(word);
    this.#listen();
  }

  #listen() {
    this.field.addEventListener('input', (event) => this.#type(event));
    this.field.addEventListener('keydown', (event) => this.#press(event));
    this.candidates.closed = () => (this.store.view.look ? this.candidates.hide() : this.lights.unpin());
    byId('source').addEventListener('change', (event) => this.#chooseSource(changed(event).value));
    byId('target').addEventListener('change', (event) => this.#chooseTarget(changed(event).value));
    byId('swap').addEventListener('click', () => this.#swap());
    byId('clear').addEventListener('click', () => this.#clear());
    byId('undo').addEventListener('click', () => this.#undo());
    makeCopy(byId('copy'), () => this.#shown);
    byId('own').addEventListener('click', () => this.store.set({ wanted: null, ...UNPINNED }));
    byId('share').hidden = !('share' in navigator);
    byId('share').addEventListener('click', () => this.#share());
    byId('listen').hidden = !('speechSynthesis' in window);
    byId('listen').addEventListener('click', () => this.#read());
    scrollTogether(/** @type {HTMLElement} */ (this.field.parentElement), this.output);
  }

  /** Offers the translation to the programs of the reader's system. */
  #share() {
    const work = navigator.share({ text: this.#shown, url: linkTo(this.store.view) });
    work.catch(() => undefined); // The reader has changed their mind.
  }

  /** Lets the browser read the translation aloud, or stop. */
  #read() {
    if (this.#speech !== null) return this.#hush();
    const speech = new SpeechSynthesisUtterance(this.#shown);
    speech.lang = this.#result?.target ?? '';
    speech.onend = speech.onerror = () => speech === this.#speech && this.#hush();
    speechSynthesis.speak(speech);
    this.#speech = speech;
    setText(byId('listen'), say('stop'));
  }

  #hush() {
    if (this.#speech === null) return;
    this.#speech = null;
    speechSynthesis.cancel();
    setText(byId('listen'), say('listen'));
  }

  /** Shows a view that a link has opened. */
  restore() {
    this.#fill(this.store.view.text);
    this.#render(this.store.view);
    this.#translate();
    const isFree = document.activeElement === document.body && matchMedia('(pointer: fine)').matches;
    if (isFree && this.store.view.text === '') this.field.focus({ preventScroll: true });
  }

  /** Says that the server does not translate the languages of a link, until the next choice. */
  tellUnserved(link) {
    this.hints.show('linkUnserved', { source: link.source, target: link.target });
    this.#keepsHint = true;
  }

  /** Translates a text as if it had been pasted. */
  take({ text, source, target = this.store.view.target }) {
    this.#replace({ text, source, target: this.languages.targetFor(source, target) });
  }

  /** The translation on the page. */
  get #shown() {
    return this.#result?.shown ?? '';
  }

  #choose(change) {
    this.#keepsHint = false;
    this.#mayFlip = true;
    this.store.set({ ...change, wanted: null, ...UNPINNED });
  }

  #chooseSource(source) {
    this.#choose({ source, target: this.languages.targetFor(source, this.store.view.target) });
  }

  /** Takes a target that the reader wants, whatever the language of the text. */
  #chooseTarget(target) {
    this.#keepsHint = false;
    this.#mayFlip = false;
    this.store.set({ target, wanted: null, ...UNPINNED });
  }

  #type(event) {
    const text = this.limit.shorten();
    this.lights.showText(text);
    this.#mayFlip = true;
    this.#replaced = null;
    this.store.set({ text, ...FIRST });
    this.#render(this.store.view);
    const isPasted = event.inputType?.startsWith('insertFrom') || event.detail === PASTED;
    if (isPasted) this.#translate();
  }

  #clear() {
    this.#replace({ text: '' });
    this.field.focus();
  }

  /** Replaces the text; the reader can undo that. */
  #replace(change) {
    const { text, source, target } = this.store.view;
    this.#replaced = text === '' ? null : { text, source, target };
    this.#choose({ ...change, ...FIRST });
  }

  #undo() {
    if (this.#replaced === null) return;
    const before = { ...this.#replaced, ...FIRST };
    this.#replaced = null;
    this.#choose(before);
    this.field.focus();
  }

  /** Acts on Ctrl+Enter, and on Ctrl+Z after a text was replaced, which the browser cannot undo. */
  #press(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    if (event.key === 'Enter') this.#translate();
    else if (event.key === 'z' && this.#replaced !== null) this.#undo();
    else return;
    event.preventDefault();
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
    if (view.way !== before.way) this.#hush();
    if (isOther) this.#schedule(view, before);
    else if (view.wanted !== before.wanted) this.#showChoice();
    this.#render(view);
  }

  /** Puts a text into the field; a text over the limit is cut. */
  #fill(text) {
    this.field.value = this.limit.taken(text);
    this.lights.showText(this.field.value);
    if (this.field.value !== text) this.store.set({ text: this.field.value });
  }

  /** Translates at once, or after a pause while the reader types. */
  #schedule(view, before) {
    const isTyped = view.text !== before.text && this.field.value === view.text;
    if (this.field.value !== view.text) this.#fill(view.text);
    this.#latest.cancel();
    clearTimeout(this.#typing);
    this.notice.hide();
    this.#age();
    if (isTyped && view.text && document.activeElement === this.field)
      this.#typing = setTimeout(() => this.#translate(), TYPING_MILLISECONDS);
    else this.#translate();
  }

  #render(view) {
    this.languages.render(byId('source'), byId('target'), view, this.#detected);
    this.field.lang = view.source === 'auto' ? (this.#result?.source ?? '') : view.source;
    byId('clear').hidden = view.text === '';
    byId('undo').hidden = this.#replaced === null;
    byId('own').hidden = view.wanted === null;
    byId('panes').dataset.size = sizeOf(view.text);
    this.limit.render();
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
    this.#age();
    this.output.setAttribute('aria-busy', 'true');
    this.output.classList.remove('growing');
    try {
      const body = { q: text, source, target, return_alignment: true };
      const isWhole = await this.#latest.run((signal) => this.#stream(body, signal));
      if (!isWhole) return;
      this.#settle(false);
      this.#isWhole = true;
      if (this.store.view.wanted === null) this.#finish();
      else this.#showChoice();
    } catch (error) {
      this.#settle(true);
      this.translated(null);
      this.notice.show(/** @type {ApiError} */ (error), () => this.#translate());
    }
  }

  /** Shows each sentence of a translation as soon as it has come; true when all have come. */
  async #stream(body, signal) {
    for await (const sentence of translatedSentences(body, signal)) {
      if (signal.aborted) return false;
      if (sentence.sentence === 0 && this.#isOtherwise(sentence)) return false;
      if (sentence.sentence === 0) this.#begin(sentence);
      this.#add(sentence);
    }
    return true;
  }

  /**
   * Ends a translation at once if the detected language has no use for it.
   * @param {Sentence} first
   */
  #isOtherwise({ body, detectedLanguage: detected }) {
    if (detected === undefined) return false;
    const { q: text, target } = body;
    const { language, confidence, unserved } = detected;
    if (confidence === 0 && /\p{L}/u.test(text)) this.#refuse(text, target, () => this.hints.show('noneServed'));
    else if (unserved !== undefined) {
      const way = { name: 'translateAs', code: language, act: () => this.#chooseSource(language) };
      this.#refuse(text, target, () => this.hints.show('unserved', { language: unserved }, way));
    } else if (language === target && this.#mayFlip && confidence >= SURE_PERCENT) {
      const other = this.languages.targetFor(language, target);
      if (other === target) return false;
      this.hints.show('flipped', { language, target: other });
      this.#keepsHint = true;
      this.store.set({ target: other });
    } else return false;
    return true;
  }

  /** Shows a hint in place of a translation. */
  #refuse(text, target, hint) {
    this.#empty({ text, source: target, target, own: '', sentences: [] });
    hint();
  }

  /** Marks the translation of an older text: it is dim and cannot be copied. */
  #age() {
    this.#isWhole = false;
    this.#hush();
    this.#aligning.cancel();
    this.output.classList.add('stale');
    this.candidates.hide();
    setStale(byId('look-fold'), true);
    for (const id of AFTER) byId(id).setAttribute('disabled', '');
  }

  /** Ends the busy state; the translation of an older text, or a part of one, stays dim. */
  #settle(isStale) {
    this.output.setAttribute('aria-busy', 'false');
    this.output.classList.remove('growing');
    this.output.classList.toggle('stale', isStale);
    setStale(byId('look-fold'), isStale);
    for (const id of AFTER) byId(id).toggleAttribute('disabled', isStale);
    byId('progress').hidden = true;
    this.output.style.minHeight = '';
  }

  /** Removes the translation, for a text to embed or for no text. */
  #empty(other) {
    this.#latest.cancel();
    clearTimeout(this.#speaking);
    this.#result = null;
    this.output.replaceChildren();
    this.#settle(false);
    this.#detected = '';
    this.#render(this.store.view);
    byId('after').hidden = true;
    this.hints.hide();
    this.notice.hide();
    this.curl.hide();
    this.translated(other);
  }

  /**
   * Replaces the shown translation by a new one, which has no sentence yet.
   * @param {Sentence} first
   */
  #begin({ body, detectedLanguage }) {
    const { q: text, target } = body;
    const hasWords = detectedLanguage?.confidence !== 0; // Digits stay as they are.
    const source = hasWords ? (detectedLanguage?.language ?? body.source) : target;
    const sentences = [];
    this.#result = { text, source, target, own: '', sentences, shown: '', words: sentences };
    this.notice.hide();
    this.curl.show('translate', body);
    if (hasWords) this.#tellLanguage(this.#result, detectedLanguage);
    else this.hints.show('noWords');
    this.#render(this.store.view);
    this.output.style.minHeight = `${this.output.offsetHeight}px`; // The page must not jump.
    this.output.classList.remove('stale');
    this.output.classList.add('growing');
    this.output.lang = target;
    if (this.store.view.wanted === null) this.lights.begin(text);
  }

  /** @param {Sentence} sentence */
  #add({ translatedText, alignment = [] }) {
    const result = /** @type {Translation} */ (this.#result);
    result.own += translatedText;
    result.shown = result.own;
    result.sentences.push(...alignment);
    if (this.store.view.wanted === null) this.lights.add(translatedText, alignment);
    const read = alignment.at(-1)?.source_words.at(-1)?.[1] ?? result.own.length;
    byId('progress').value = Math.min(1, read / result.text.length);
    byId('progress').hidden = false;
  }

  /** Shows the sentences that the reader chose in place of the model's own, with their alignment. */
  async #showChoice() {
    this.#aligning.cancel();
    const result = this.#result;
    if (result === null || !this.#isWhole) return;
    const work = (signal) => this.#align(result, signal).catch(() => ({})); // It is no more than light.
    const items = await this.#aligning.run(work);
    if (items === undefined) return;
    Object.assign(result, withChosen(result, this.store.view, items));
    this.lights.begin(result.text);
    this.lights.add(result.shown, result.words);
    this.#finish();
  }

  /** Returns the items of POST /attention of the sentences that the reader chose, by their numbers. */
  async #align({ text, source, target, sentences }, signal) {
    const { view } = this.store;
    const chosen = [...sentences.keys()].filter((index) => chosenFor(view, index) !== null);
    if (chosen.length === 0) return {};
    const body = {
      text: chosen.map((index) => cutOut(text, sentences[index].source_words)),
      target_text: chosen.map((index) => chosenFor(view, index)),
      ...{ source, target, kinds: ['cross'], level: 'word', top_k: 1 },
    };
    const { items } = await post('attention', body, signal);
    return Object.fromEntries(chosen.map((index, place) => [index, items[place]]));
  }

  #finish() {
    byId('after').hidden = false;
    this.#speak();
    this.translated(this.#result);
  }

  /** Goes to the sentence of a word, and shows the likeliest tokens at a word of the translation. */
  #chooseWord(word) {
    this.candidates.hide();
    if (word === null || this.#result === null || !this.#isWhole) return;
    const { view } = this.store;
    if (word.sentence !== view.sentence) this.store.set({ sentence: word.sentence, ...UNPINNED });
    if (word.side === 'source') return;
    const { text, source, target, shown, words } = this.#result;
    const { source_words: read, target_words: written } = words[word.sentence];
    this.candidates.show(word.node, {
      ...{ source, target, text: cutOut(text, read), translated: cutOut(shown, written) },
      start: written[word.index][0] - written[0][0],
      choose: (prefix) => this.#continue(word.sentence, prefix),
    });
  }

  /** Lets the translation of a sentence go on from another beginning. */
  async #continue(sentence, prefix) {
    const { text, source, target, own, sentences } = /** @type {Translation} */ (this.#result);
    const { source_words: read, target_words: written } = sentences[sentence];
    const body = { q: cutOut(text, read), source, target, target_prefix: prefix, split_sentences: false };
    const reply = await this.#aligning.run((signal) => post('translate', body, signal));
    if (reply === undefined) return;
    const hasFocus = this.candidates.root.contains(document.activeElement);
    const { translatedText: found } = reply;
    const isOwn = found === cutOut(own, written);
    this.candidates.hide();
    this.store.set({ wanted: chooseFor(this.store.view, sentence, isOwn ? null : found), ...UNPINNED });
    if (hasFocus) byId('own').focus(); // The chosen button is gone.
  }

  /** Announces the translation to screen readers after a pause in typing. */
  #speak() {
    clearTimeout(this.#speaking);
    const language = this.languages.name(this.#result?.target ?? '');
    const said = say('said', { language, text: this.#shown });
    this.#speaking = setTimeout(() => setText(byId('said'), said), SPEAKING_MILLISECONDS);
  }

  #tellLanguage({ source, target }, detected) {
    this.#detected = detected ? source : '';
    if (source === target) {
      const other = this.languages.targetFor(source, target);
      const way = { name: 'translateTo', code: other, act: () => this.#chooseTarget(other) };
      this.hints.show('already', { language: source }, other === target ? null : way);
    } else if (!this.#keepsHint) this.hints.hide();
  }
}

/** Returns the name of the size of letters for a text; the style sheet has the sizes. */
const sizeOf = ({ length }) => (length > 600 ? 'small' : length > 200 ? 'middle' : 'large');

/** Scrolls elements together: each shows the same share of its text. */
function scrollTogether(...panes) {
  const leader = () => panes.find((pane) => pane.matches(':hover')) ?? panes.find((pane) => pane.matches(':focus-within'));
  for (const pane of panes) {
    pane.addEventListener('scroll', () => {
      if (pane !== leader()) return; // Its leader has moved it.
      const share = pane.scrollTop / (pane.scrollHeight - pane.clientHeight);
      for (const other of panes)
        if (other !== pane) other.scrollTop = share * (other.scrollHeight - other.clientHeight);
    });
  }
}

/**
 * Yields the sentences of a text as the server translates them. A text that goes through two models
 * has no aligned words.
 * @param {Json} body A request to POST /translate with `return_alignment`.
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<Sentence>}
 */
async function* translatedSentences(body, signal) {
  try {
    yield* streamed(body, signal);
  } catch (error) {
    if (/** @type {ApiError} */ (error).type !== 'invalid_request') throw error;
    yield* streamed({ ...body, return_alignment: undefined }, signal);
  }
}

async function* streamed(body, signal) {
  for await (const event of postForLines('translate', body, signal)) {
    if (event.done) return;
    if (event.error !== undefined) throw errorOf(event);
    yield { ...event, body };
  }
  throw connectionLost();
}
