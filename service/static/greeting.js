// Loads Understand when a view first needs it; from a link, before the page has its languages.

import { loaded } from './common/api.js';
import { byId, element } from './common/dom.js';
import { keptView } from './common/language.js';
import { Notice } from './common/notice.js';
import { DEFAULTS, fromFragment } from './common/state.js';

const arrived = location.hash;
const opened = keptView() ?? arrived;

/** Returns the fragment of the view to show; Back and Forward work before the page is built. */
export const shownFragment = () => (location.hash === arrived ? opened : location.hash);

/** @typedef {{store: Store, models: Models, languages: Languages}} Served */

/** Understand: nothing of it is loaded before the reader comes to it. */
export class Understand {
  /** @type {import('./understand/understand.js').UnderstandPanel|null} */
  #panel = null;
  /** @type {Served|null} */
  #served = null;
  #isLoading = false;

  /** @param {function(): Promise<typeof import('./understand/understand.js')>} load */
  constructor(load) {
    this.load = load;
    const notice = element('div', { class: 'notice', hidden: true });
    byId('understand').append(notice);
    /** Tells what could not be loaded. */
    this.notice = new Notice(notice);
    this.#show(fromFragment(opened) ?? DEFAULTS);
  }

  /**
   * Connects the explanation to the view and to the models of the server.
   * @param {Served} served
   */
  connect(served) {
    this.#served = served;
    this.#panel?.connect(served);
    served.store.subscribe((view) => this.#show(view));
    this.#show(served.store.view);
  }

  /** @param {Readonly<View>} view */
  async #show(view) {
    document.documentElement.dataset.way = view.way; // The style sheet hides the other part.
    if (view.way !== 'understand') return;
    if (this.#panel !== null) this.#panel.show(view);
    if (this.#panel !== null || this.#isLoading) return;
    this.#isLoading = true;
    try {
      const { UnderstandPanel } = await loaded(this.load);
      const panel = new UnderstandPanel(view);
      this.#panel = panel;
      if (this.#served === null) return;
      this.notice.hide();
      panel.connect(this.#served);
    } catch (error) {
      // Before the page has its languages, `start` shows the notice, and comes here again.
      const again = () => this.#show(/** @type {Served} */ (this.#served).store.view);
      if (this.#served !== null) this.notice.show(/** @type {ApiError} */ (error), again);
    } finally {
      this.#isLoading = false;
    }
  }
}
