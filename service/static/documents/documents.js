// Documents: a file that is dropped or chosen, its translation by the server, and the download.

import { ApiError, Latest, post, postForFile, postForm } from '../common/api.js';
import { byId, element, setText } from '../common/dom.js';
import { Notice } from '../common/notice.js';
import { speaker } from '../common/strings.js';
import { documents } from '../strings/documents.js';

const say = speaker(documents);
const ASKING_MILLISECONDS = 1000;

/** The part of the page that translates files. */
export class DocumentsPanel {
  #latest = new Latest();
  /** @type {Store|null} */
  store = null;
  /** @type {Languages|null} */
  languages = null;

  constructor() {
    this.root = byId('documents');
    this.root.setAttribute('aria-label', say('section'));
    this.source = element('select', { id: 'documents-source' });
    this.target = element('select', { id: 'documents-target' });
    this.file = element('input', { type: 'file', class: 'unseen', id: 'file' });
    this.formats = element('span', { class: 'hint' });
    const words = element('strong', { text: say('drop') });
    this.drop = element('label', { class: 'drop' }, this.file, words, this.formats);
    this.status = element('p', { role: 'status' });
    this.progress = element('progress', { max: 1, 'aria-label': say('progress'), hidden: true });
    this.done = element('p');
    this.notice = new Notice();
    const label = (name) => element('label', { for: `documents-${name}`, text: say(name) });
    const menus = [label('source'), this.source, label('target'), this.target];
    const hint = element('p', { class: 'hint', text: say('hint') });
    const pair = element('p', { class: 'pair' }, ...menus);
    this.root.append(pair, this.drop, this.progress, this.status, this.done, this.notice.root, hint);
  }

  /**
   * Connects the part to the view and to the server's settings.
   * @param {import('../greeting.js').Served} served
   */
  connect({ store, languages, settings }) {
    if (!settings.filesTranslation) {
      this.root.replaceChildren(element('p', { class: 'notice', text: say('off') }));
      return;
    }
    Object.assign(this, { store, languages });
    this.file.accept = settings.supportedFilesFormat.join(',');
    setText(this.formats, settings.supportedFilesFormat.join(' ').replaceAll('.', ''));
    for (const menu of [this.source, this.target])
      menu.addEventListener('change', () => {
        const { value: source } = this.source;
        store.set({ source, target: languages.targetFor(source, this.target.value) });
      });
    this.file.addEventListener('change', () => this.#translate(this.file.files?.[0]));
    this.show(store.view);
  }

  /** Shows the languages of a view, and translates the file that waits in it. */
  show(view) {
    if (this.languages === null) return; // The server translates no documents.
    this.languages.render(this.source, this.target, view);
    if (view.file === null) return;
    this.store?.set({ file: null });
    this.#translate(view.file);
  }

  async #translate(file) {
    if (file === undefined) return;
    this.notice.hide();
    this.done.replaceChildren();
    this.file.value = ''; // The same file can be chosen again.
    this.#tell(say('sending', { name: file.name }));
    try {
      const { target } = /** @type {Store} */ (this.store).view;
      const found = await this.#latest.run((signal) => this.#ask(file, signal));
      if (found === undefined) return;
      const name = file.name.replace(/(\.[^.]*)?$/, (ending) => `.${target}${ending}`);
      this.#tell(say('done', { name: file.name }));
      this.progress.hidden = true;
      const link = element('a', { href: URL.createObjectURL(found), download: name });
      link.textContent = say('download', { name });
      this.done.replaceChildren(link);
      link.focus();
    } catch (error) {
      setText(this.status, '');
      this.progress.hidden = true;
      this.notice.show(/** @type {ApiError} */ (error), () => this.#translate(file));
    }
  }

  /** Returns the translated file, after the server has translated it. */
  async #ask(file, signal) {
    const { source, target } = /** @type {Store} */ (this.store).view;
    const form = new FormData();
    form.append('file', file);
    form.append('target_lang', target);
    if (source !== 'auto') form.append('source_lang', source);
    const { document_id: id, document_key } = await postForm('v2/document', form, signal);
    const path = `v2/document/${id}`;
    const started = Date.now();
    for (;;) {
      const state = await post(path, { document_key }, signal);
      if (state.status === 'done') break;
      if (state.status === 'error') throw new ApiError(state.message, { status: 400, type: 'invalid_request' });
      const { seconds_remaining: left } = state;
      const share = left === undefined ? null : 1 - left / (left + (Date.now() - started) / 1000);
      const words = left === undefined ? 'translating' : 'left';
      this.#tell(say(words, { name: file.name, seconds: left ?? 0 }), share);
      await new Promise((resolve) => setTimeout(resolve, ASKING_MILLISECONDS));
    }
    return postForFile(`${path}/result`, { document_key });
  }

  /**
   * Shows how far the work is.
   * @param {string} words
   * @param {number|null} share It is null if it is unknown.
   */
  #tell(words, share = null) {
    setText(this.status, words);
    this.progress.hidden = false;
    if (share === null) this.progress.removeAttribute('value');
    else this.progress.value = share;
  }
}
