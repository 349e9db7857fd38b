// Loads a part of the page when a view first needs it; from a link, before the languages are there.

import { loaded } from './common/api.js';
import { byId } from './common/dom.js';
import { keptView } from './common/language.js';
import { Notice } from './common/notice.js';
import { DEFAULTS, fromFragment } from './common/state.js';

const arrived = location.hash;
const opened = keptView() ?? arrived;

/** Returns the fragment of the view to show; Back and Forward work before the page is built. */
export const shownFragment = () => (location.hash === arrived ? opened : location.hash);

/** @typedef {{store: Store, models: Models, languages: Languages, settings: Json}} Served */
/** @typedef {{connect: function(Served): void, show: function(Readonly<View>): void}} Panel */

/** A part that is loaded when the reader comes to it. */
export class LaterPart {
  /** @type {Panel|null} */
  #panel = null;
  /** @type {Served|null} */
  #served = null;
  #isLoading = false;

  /**
   * @param {View['way']} way The part, and the id of its element.
   * @param {function(Readonly<View>): Promise<Panel>} load
   */
  constructor(way, load) {
    this.way = way;
    this.load = load;
    /** Tells what could not be loaded. */
    this.notice = new Notice();
    byId(way).append(this.notice.root);
    this.#show(fromFragment(opened) ?? DEFAULTS);
  }

  /**
   * Connects the part to the view and to the models of the server.
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
    if (view.way !== this.way) return;
    if (this.#panel !== null) this.#panel.show(view);
    if (this.#panel !== null || this.#isLoading) return;
    this.#isLoading = true;
    try {
      const panel = await loaded(() => this.load(view));
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
