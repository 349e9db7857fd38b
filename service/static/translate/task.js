// The task for a text: translate it, or embed it with another model.

import { byId, changed, renderRadios } from '../common/dom.js';
import { speaker } from '../common/strings.js';
import { FIRST } from '../common/state.js';
import { translate } from '../strings/translate.js';
import { fillMenu } from './languages.js';

const say = speaker(translate);

const TASKS = [
  { value: 'translate', label: say('taskTranslate') },
  { value: 'embed', label: say('taskEmbed'), title: say('taskEmbedTitle') },
];

/** The choice of the task and of the embedding model; hidden if no model embeds. */
export class TaskChoice {
  /**
   * @param {Store} store
   * @param {string[]} embedders Names of models.
   */
  constructor(store, embedders) {
    this.store = store;
    this.embedders = embedders;
    byId('embedder').addEventListener('change', (event) => {
      this.#set({ model: changed(event).value });
    });
    store.subscribe((view) => this.render(view));
  }

  /** Shows the task of a view, and the parts of the page that belong to it. */
  render({ task, model }) {
    byId('tasks').hidden = this.embedders.length === 0;
    byId('translate').dataset.task = task;
    byId('text-label').textContent = say(task === 'embed' ? 'textToEmbed' : 'textToTranslate');
    renderRadios(byId('task'), 'task', TASKS, task, (value) => this.#set({ task: value }));
    byId('embedder-choice').hidden = task !== 'embed' || this.embedders.length < 2;
    const entries = this.embedders.map((name) => [name, name]);
    fillMenu(byId('embedder'), entries, model ?? this.embedders[0] ?? '');
  }

  #set(change) {
    this.store.set({ ...change, ...FIRST });
  }
}
