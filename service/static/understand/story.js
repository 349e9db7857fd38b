// The story: chapters that follow one token through the translator, by scrolling or by keys.

import { linkTo } from '../common/address.js';
import { Latest } from '../common/api.js';
import { element, renderRadios, setAttribute, setText } from '../common/dom.js';
import { Notice } from '../common/notice.js';
import { speaker } from '../common/strings.js';
import { story } from '../strings/story.js';
import { Chapters } from './chapters.js';
import { chaptersOf, isWhole, minutesOf, titleOf } from './chapters/list.js';
import { readPool, readSentence, readToken, usualToken } from './facts.js';
import { TRANSLATOR_HEAD, sentenceOf } from './kids.js';
import { Lesson, MOST_CHARACTERS, SOURCE } from './lesson.js';

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
  /** @type {any} */
  #facts = null;
  #isWhole = false;

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
    const notice = element('div', { class: 'notice', hidden: true });
    this.notice = new Notice(notice);
    this.status = element('p', { class: 'hint', role: 'status', text: say('waiting') });
    this.extent = element(
      'fieldset',
      { class: 'radios', id: 'extent', hidden: true },
      element('legend', { class: 'unseen', text: say('steps') }),
    );
    this.lesson = new Lesson(
      (text) => this.#use(text),
      (token) => this.store.set({ token }),
    );
    const link = () => linkTo(this.store.view);
    this.chapters = new Chapters((step) => this.#reach(step), link);
    this.lesson.root.addEventListener('click', () => this.#reach(null));
    this.root = element(
      'section',
      { id: 'story', 'aria-labelledby': 'story-title', 'aria-busy': 'false' },
      element('h2', { id: 'story-title', text: say('title') }),
      element('p', { class: 'lead', text: say('lead') }),
      this.lesson.root,
      this.extent,
      notice,
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
    } else if (this.#facts !== null && isWhole(view) !== this.#isWhole) this.#render(this.#facts);
    this.chapters.goTo(view.step);
  }

  /** Notes the current step. All steps stay if a step beyond the main ones has brought them. */
  #reach(step) {
    const { view } = this.store;
    if (view.step !== step) this.store.set({ step, whole: isWhole(view) });
  }

  /** Takes a sentence of the reader; an empty one stands for that of the opening. */
  #use(text) {
    const isUsual = text === '' || text === sentenceOf(this.store.view).text;
    this.store.set({ lesson: isUsual ? null : text, token: null });
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
    if (this.#sentence?.text !== text) this.#sentence = await readSentence(text, pair, signal);
    const hasToken = token !== null && token < this.#sentence.tokens.length;
    const followed = hasToken ? token : usualToken(this.#sentence);
    const facts = await readToken(this.#sentence, followed, pair, model, signal);
    if (model.id === TRANSLATOR_HEAD.model) this.#pool ??= await readPool(pair, signal);
    return { ...facts, pool: this.#pool };
  }

  #end(words) {
    setText(this.status, words);
    this.#facts = null;
    this.extent.hidden = true;
    this.lesson.show(null);
    this.chapters.show([]);
  }

  #render(facts) {
    setText(this.status, '');
    this.#facts = facts;
    this.#isWhole = isWhole(this.store.view);
    this.lesson.show(facts, Boolean(this.store.view.lesson?.trim()));
    this.#renderExtent(facts);
    const chapters = chaptersOf(facts, this.#isWhole).map((chapter) => ({
      ...{ name: chapter.name, group: say(`group_${chapter.group}`) },
      title: titleOf(chapter, facts),
      content: chapter.content(facts),
    }));
    this.chapters.show(chapters, minutesOf(this.#isWhole));
    this.chapters.goTo(this.store.view.step);
  }

  /** Shows the choice between the main steps and all. */
  #renderExtent(facts) {
    const options = [false, true].map((isAll) => ({
      value: isAll ? 'whole' : 'main',
      label: say(isAll ? 'allSteps' : 'mainSteps', {
        ...{ count: chaptersOf(facts, isAll).length, minutes: minutesOf(isAll) },
      }),
    }));
    this.extent.hidden = false;
    renderRadios(this.extent, 'extent', options, this.#isWhole ? 'whole' : 'main', (value) => {
      const { step } = this.store.view;
      const isLeft = value === 'main' && isWhole({ whole: false, step });
      this.store.set({ whole: value === 'whole', step: isLeft ? null : step });
    });
  }
}
