// Types that several modules of the page share. Nothing serves or packages this file.

type Store = import('../../service/static/common/state.js').Store;
type Notice = import('../../service/static/common/notice.js').Notice;
type CurlLine = import('../../service/static/common/curl.js').CurlLine;
type ApiError = import('../../service/static/common/api.js').ApiError;
type Controls = import('../../service/static/look/controls.js').Controls;
type Downloads = import('../../service/static/look/downloads.js').Downloads;
type Heads = import('../../service/static/look/heads.js').Heads;
type HeatMap = import('../../service/static/common/heatmap.js').HeatMap;
type Models = import('../../service/static/look/models.js').Models;
type StepsPanel = import('../../service/static/look/steps.js').StepsPanel;
type Languages = import('../../service/static/translate/languages.js').Languages;
type WordLights = import('../../service/static/translate/alignment.js').WordLights;
type Figure = import('../../service/static/common/figure.js').Figure;
type Place = import('../../service/static/common/figure.js').Place;
type Tables = import('../../service/static/look/attention.js').Tables;
type Axis = import('../../service/static/look/attention.js').Axis;
type Gaze = import('../../service/static/look/gaze.js').Gaze;
type Word = import('../../service/static/look/gaze.js').Word;
type LikelyPanel = import('../../service/static/look/likely.js').LikelyPanel;
type SearchPanel = import('../../service/static/look/search.js').SearchPanel;
type Shape = import('../../service/static/look/models.js').Shape;
type Subject = import('../../service/static/look/attention.js').Subject;
type Texts = import('../../service/static/common/strings.js').Texts;

/** The elements of index.html that are more than an `HTMLElement`, by id. */
interface PageElements {
  text: HTMLTextAreaElement;
  source: HTMLSelectElement;
  target: HTMLSelectElement;
  embedder: HTMLSelectElement;
  sentence: HTMLSelectElement;
  swap: HTMLButtonElement;
  copy: HTMLButtonElement;
  link: HTMLButtonElement;
  norm: HTMLFieldSetElement;
  'look-fold': HTMLDetailsElement;
  'map-table': HTMLDetailsElement;
  'translate-curl': HTMLDetailsElement;
  'look-curl': HTMLDetailsElement;
  expert: HTMLDetailsElement;
  'steps-curl': HTMLDetailsElement;
  'steps-before': HTMLButtonElement;
  'steps-after': HTMLButtonElement;
  'steps-table': HTMLTableElement;
  why: HTMLInputElement;
  'likely-table': HTMLTableElement;
  'likely-curl': HTMLDetailsElement;
  'similarity-table': HTMLDetailsElement;
  'similarity-curl': HTMLDetailsElement;
  shares: HTMLTableElement;
  search: HTMLDetailsElement;
  'search-from': HTMLSelectElement;
  'search-to': HTMLSelectElement;
  'search-curl': HTMLDetailsElement;
  vectors: HTMLInputElement;
  progress: HTMLProgressElement;
}

/** A choice that has a number, or a word for several. */
type NumberOr<Word extends string> = number | Word;

/** All that the reader chose. common/state.js explains each field. */
interface View {
  file: File | null;
  way: 'translate' | 'documents' | 'understand';
  task: 'translate' | 'embed';
  model: string | null;
  text: string;
  source: string;
  target: string;
  wanted: string | null;
  others: boolean;
  look: boolean;
  sentence: number;
  kind: 'cross' | 'encoder' | 'decoder';
  layer: NumberOr<'all' | 'rollout'> | null;
  head: NumberOr<'mean'> | null;
  level: 'word' | 'token';
  norm: string;
  query: number | null;
  key: number | null;
  named: string;
  search: boolean;
  vectors: boolean;
  swapped: boolean;
  turned: boolean;
  from: number | null;
  lesson: string | null;
  token: number | null;
  step: string | null;
  off: string | null;
  uniform: boolean;
  toy: string | null;
}

/** A word that a detector or a request names as a language, with its confidence in percent. */
interface Detected {
  language: string;
  confidence: number;
  unserved?: string;
}

/** The words of a sentence, and their aligned pairs with weights. Spans are code points. */
interface AlignedSentence {
  source_words: number[][];
  target_words: number[][];
  pairs: number[][];
}

/** A text and its translation. */
interface Translation {
  task?: undefined;
  text: string;
  /** The chosen or detected language. */
  source: string;
  target: string;
  /** The model's own translation. */
  own: string;
  /** The words of its sentences. */
  sentences: AlignedSentence[];
  /** The translation with the sentences that the reader chose. */
  shown: string;
  words: AlignedSentence[];
}

/** A text that a model embeds. */
interface EmbeddedText {
  task: 'embed';
  text: string;
  model: string | null;
  sentences: never[];
}

/** A reply or a request body of the API, which the page reads field by field. */
type Json = any;
