// The story: chapters that follow one token through the translator, by scrolling or by keys.

import { linkTo } from '../common/address.js';
import { Latest } from '../common/api.js';
import { element, setAttribute, setText } from '../common/dom.js';
import { Notice } from '../common/notice.js';
import { speaker } from '../common/strings.js';
import { story } from '../strings/story.js';
import { Chapters, MINUTES } from './chapters.js';
import { Drawing } from './drawing.js';
import { readPool, readSentence, readToken, usualToken } from './facts.js';
import { TRANSLATOR_HEAD, sentenceOf } from './kids.js';
import { Lesson, MOST_CHARACTERS, SOURCE } from './lesson.js';
import { Switches } from './switches.js';

const say = speaker(story);

const USUAL_TARGET = 'pt';

/** Returns the sentence of a view's story: the reader's own, or the one of the opening. */
export const lessonOf = (view) =>
  (view.lesson?.trim() || sentenceOf(view).text).slice(0, MOST_CHARACTERS);

/** The story with its sentence, its chapters and the ways through them. */
export class Story {
  #latest = new Latest();
  /** @type {string|null} */
  #shown = null;
  /** @type {any} */
  #sentence = null;
  /** @type {any} */
  #pool = null;

  /**
   * @param {Object} parts
   * @param {Store} parts.store
   * @param {Models} parts.models
   * @param {Languages} parts.languages
   */
  constructor(parts) {
    this.store = parts.store;
    this.models = parts.models;
    this.languages = parts.languages;
    this.notice = new Notice();
    this.status = element('p', { class: 'hint', role: 'status', text: say('waiting') });
    this.lesson = new Lesson(
      (text) => this.#use(text),
      (token) => this.store.set({ token }),
    );
    /** Follow the sentence of the story. */
    this.switches = new Switches(parts.store);
    const choose = (step) => this.store.set({ step });
    this.drawing = new Drawing(choose);
    this.chapters = new Chapters(this.drawing, choose, () => linkTo(this.store.view));
    this.root = element(
      'section',
      { id: 'story', 'aria-labelledby': 'story-title', 'aria-busy': 'false' },
      element('h2', { id: 'story-title', text: say('title') }),
      element('p', { class: 'lead', text: say('lead', { minutes: MINUTES }) }),
      this.lesson.root,
      this.notice.root,
      this.status,
      this.chapters.root,
    );
  }

  /** Shows the story of a view. */
  show(view) {
    const text = lessonOf(view);
    const key = JSON.stringify([text, view.token]);
    if (key !== this.#shown) {
      this.#shown = key;
      this.lesson.read(text);
      this.#load(text, view.token);
    }
    this.#go(view.step);
    this.switches.show(view);
  }

  #go(step) {
    this.chapters.goTo(step);
    this.drawing.light(step);
  }

  /** Takes a sentence of the reader; an empty one stands for that of the opening. */
  #use(text) {
    const isUsual = text === '' || text === sentenceOf(this.store.view).text;
    this.store.set({ lesson: isUsual ? null : text, token: null, off: null });
  }

  async #load(text, token) {
    setAttribute(this.root, 'aria-busy', 'true');
    try {
      const facts = await this.#latest.run((signal) => this.#ask(text, token, signal));
      if (facts === undefined) return;
      this.notice.hide();
      if (facts.missing) this.#end(facts.missing);
      else this.#render(facts);
    } catch (error) {
      this.notice.show(/** @type {ApiError} */ (error), () => this.#load(text, token));
      setText(this.status, '');
    }
    setAttribute(this.root, 'aria-busy', 'false');
  }

  async #ask(text, token, signal) {
    if (!this.languages.isServed(SOURCE)) return { missing: say('noModel') };
    const pair = { source: SOURCE, target: this.languages.targetFor(SOURCE, USUAL_TARGET) };
    const model = await this.models.find({ task: 'translate', ...pair }, signal);
    if (!model) return { missing: say('noModel') };
    if (!model.attention?.encoder || !model.attention?.cross)
      return { missing: say('noAttention', { model: model.id }) };
    if (this.#sentence?.text !== text)
      this.#sentence = await readSentence(text, pair, model, signal);
    const hasToken = token !== null && token < this.#sentence.tokens.length;
    const followed = hasToken ? token : usualToken(this.#sentence);
    const facts = await readToken(this.#sentence, followed, pair, model, signal);
    if (model.id === TRANSLATOR_HEAD.model) this.#pool ??= await readPool(pair, model, signal);
    return { ...facts, pair, pool: this.#pool };
  }

  #end(words) {
    setText(this.status, words);
    this.lesson.show(null);
    this.chapters.hide();
    this.switches.follow(null);
  }

  #render(facts) {
    setText(this.status, '');
    this.lesson.show(facts, Boolean(this.store.view.lesson?.trim()));
    const isFirst = this.chapters.root.hidden;
    this.chapters.show(facts);
    this.drawing.show(facts);
    this.switches.follow(facts);
    if (isFirst && this.store.view.step !== null) this.chapters.enter();
  }
}
