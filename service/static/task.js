// What a text is for: to be translated, or to be embedded by a model of its own.

import { byId, renderRadios } from './dom.js';
import { fillMenu } from './languages.js';

const TASKS = [
  { value: 'translate', label: 'Translate' },
  { value: 'embed', label: 'Embed', title: 'Look into a model that makes vectors of texts' },
];

/** The choice of the task and, where several models embed, of the model; hidden without any. */
export class TaskChoice {
  /**
   * @param {Store} store
   * @param {string[]} embedders Names of models.
   */
  constructor(store, embedders) {
    Object.assign(this, { store, embedders });
    byId('embedder').addEventListener('change', ({ target }) => this.#set({ model: target.value }));
    store.subscribe((view) => this.render(view));
  }

  /** Shows what a view has chosen, and of the page what belongs to it. */
  render({ task, model }) {
    byId('tasks').hidden = this.embedders.length === 0;
    byId('translate').dataset.task = task;
    byId('text-label').textContent = task === 'embed' ? 'Text to embed' : 'Text to translate';
    renderRadios(byId('task'), 'task', TASKS, task, (value) => this.#set({ task: value }));
    byId('embedder-choice').hidden = task !== 'embed' || this.embedders.length < 2;
    const entries = this.embedders.map((name) => [name, name]);
    fillMenu(byId('embedder'), entries, model ?? this.embedders[0] ?? '');
  }

  #set(change) {
    this.store.set({ ...change, sentence: 0, wanted: null, query: null });
  }
}
