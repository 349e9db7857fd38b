// The texts of the opening: the sentence of the kids and the lions.

/** @type {import('../common/strings.js').Texts} */
export const opening = {
  en: {
    section: 'Understand attention',
    title: 'Who left: the kids or the lions?',
    lead: 'You know it at once: “they” are the ones who were scared. A model has to look for it, and attention is how it looks. It looks with many [[head|heads]] at once, in several [[layer|layers]]. The arc shows where the word “they” looks most in one of these heads. Click another word to see where that one looks.',
    swap: 'Swap kids and lions',
    turn: 'Say the same as “{text}”',
    reads: '“{name}” looks at “{word}”: {share}',
    placeAny: 'This is head {head} of layer {layer} of {kind}.',
    readsMark: '“{name}” mostly looks at no word: {share} goes to a mark of the model',
    idle: 'A model puts a mark at an edge of each sentence, such as ⟨end⟩. A head that finds nothing to look at often looks there. The arc goes to the word that gets most: “{word}” with {share}.',
    back: 'This head was picked for what it does with “they”; for other words it may show little. Click “they” to return.',
    swapHere: 'Swap them here',
    translates: 'Its translation of this sentence:',
    pronounSame:
      'The swap exchanges the two nouns in the translation. The word for “they” is “{pronoun}” in all four sentences, so the translation does not show whom the model means.',
    place: 'This is head {head} of layer {layer} of {kind}. “{other}” gets {share}, and the other words share the rest.',
    embedder: 'a model that compares sentences ({model})',
    translator: 'the translator of this server from English to Portuguese ({model})',
    waiting: 'The model reads the sentence …',
    agrees:
      'The head looks at the word that you mean, too: the ones who were scared. Does it understand fear, or does it take the first noun? Try both buttons.',
    follows:
      'The head follows the swap. Now the “{scared}” are scared, and it looks at them. But “{scared}” is also the first noun. The other button shows which of the two counts.',
    first:
      'The “{scared}” are the ones who are scared, but the head looks at “{word}”, the first noun, the subject. So fear does not explain it. But four sentences prove no rule: with some other nouns, this head looks at the second one.',
    differs: 'Now the “{scared}” are scared, but the head looks at “{word}”.',
    elsewhere: 'This head looks at neither the kids nor the lions.',
    twistTitle: 'Another head: does it follow the swap?',
    twist:
      'The translator of this server is another model. It has a head that also links “they” to a noun. Swap the words, and watch it.',
    twistSame:
      'Now the “{scared}” are scared, but this head still looks at “{word}”. It links “they” to the word “kids”, wherever that stands.',
    twistAgrees:
      'The “{scared}” are scared, and this head looks at them. But it does so in all four sentences: it links “they” to the word “{word}”, wherever that stands.',
    twistOther: 'Here it looks at “{word}”.',
    tableTitle: 'Both heads on all four sentences',
    tableSentence: 'Sentence',
    tableHead: '{model}, layer {layer}, head {head}',
    tableScared: 'Who is scared',
    tellsTitle: 'What attention tells you, and what it does not',
    tells:
      'It tells you from which words a word takes information, in one head of one layer. These numbers are exact: the model computes with them.',
    oneOfMany:
      'It does not tell you the whole story. These are two heads. This translator has {heads} of them in its [[encoder]] alone, and they disagree.',
    notWhy:
      'It does not tell you why. In “The kids were scared of the lions”, the translator’s head gives nearly all to “kids”, in Portuguese “crianças”. That word is feminine and needs the pronoun “elas” (they). The model wrote the masculine “eles”, with a probability of {he}; “elas” had {she}.',
    noEmbedder:
      'This server does not serve {model}, so the first head cannot be shown. The translator’s head is below.',
    noTranslator:
      'This server does not translate from English to Portuguese with the model {model}, so the second head cannot be shown.',
    nothing: 'This server serves neither of the two models of this example.',
  },
  pt: {
    section: 'Entender a atenção',
    title: 'Quem fugiu: as crianças ou os leões?',
    lead: 'A frase diz: “As crianças tinham medo dos leões, então fugiram logo.” Você sabe na hora quem são “they” (eles): os que tinham medo. Um modelo precisa procurar, e a atenção é o jeito de procurar. Ele olha com muitas [[head|cabeças]] ao mesmo tempo, em várias [[layer|camadas]]. O arco mostra para onde a palavra “they” mais olha em uma dessas cabeças. Toque em outra palavra para ver para onde ela olha.',
    swap: 'Trocar kids e lions',
    turn: 'Dizer de outro jeito: “{text}”',
    reads: '“{name}” olha para “{word}”: {share}',
    placeAny: 'Esta é a cabeça {head} da camada {layer} {kind}.',
    readsMark: '“{name}” quase não olha para palavras: {share} vai para uma marca do modelo',
    idle: 'Um modelo põe uma marca em uma ponta de cada frase, como ⟨fim⟩. Uma cabeça que não acha nada para olhar muitas vezes olha para lá. O arco vai para a palavra que recebe mais: “{word}”, com {share}.',
    back: 'Esta cabeça foi escolhida pelo que faz com “they”; para outras palavras, ela pode mostrar pouco. Toque em “they” para voltar.',
    swapHere: 'Trocar aqui',
    translates: 'A tradução desta frase:',
    pronounSame:
      'A troca inverte os dois substantivos na tradução. A palavra para “they” é “{pronoun}” nas quatro frases, então a tradução não mostra de quem o modelo fala.',
    place:
      'Esta é a cabeça {head} da camada {layer} {kind}. “{other}” recebe {share}, e as outras palavras dividem o resto.',
    embedder: 'de um modelo que compara frases ({model})',
    translator: 'do tradutor deste servidor do inglês para o português ({model})',
    waiting: 'O modelo está lendo a frase …',
    agrees:
      'A cabeça olha para a mesma palavra que você: quem tinha medo. Ela entende o medo, ou só escolhe o primeiro substantivo? Experimente os dois botões.',
    follows:
      'A cabeça segue a troca. Agora quem tem medo são “{scared}”, e ela olha para essa palavra. Mas “{scared}” também é o primeiro substantivo. O outro botão mostra qual dos dois conta.',
    first:
      'Quem tem medo são “{scared}”, mas a cabeça olha para “{word}”, o primeiro substantivo, o sujeito. Então não é o medo que conta. Mas quatro frases não provam uma regra: com alguns outros substantivos, esta cabeça olha para o segundo.',
    differs: 'Agora quem tem medo são “{scared}”, mas a cabeça olha para “{word}”.',
    elsewhere: 'Esta cabeça não olha nem para as crianças (kids) nem para os leões (lions).',
    twistTitle: 'Outra cabeça: ela segue a troca?',
    twist:
      'O tradutor deste servidor é outro modelo. Ele tem uma cabeça que também liga “they” a um substantivo. Troque as palavras e observe.',
    twistSame:
      'Agora quem tem medo são “{scared}”, mas esta cabeça ainda olha para “{word}”. Ela liga “they” à palavra “kids”, onde quer que esteja.',
    twistAgrees:
      'Quem tem medo são “{scared}”, e esta cabeça olha para essa palavra. Mas ela faz isso nas quatro frases: liga “they” à palavra “{word}”, onde quer que esteja.',
    twistOther: 'Aqui ela olha para “{word}”.',
    tableTitle: 'As duas cabeças nas quatro frases',
    tableSentence: 'Frase',
    tableHead: '{model}, camada {layer}, cabeça {head}',
    tableScared: 'Quem tem medo',
    tellsTitle: 'O que a atenção diz, e o que ela não diz',
    tells:
      'Ela diz de quais palavras uma palavra tira informação, em uma cabeça de uma camada. Estes números são exatos: o modelo calcula com eles.',
    oneOfMany:
      'Ela não conta a história inteira. Estas são duas cabeças. Só no [[encoder|codificador]] deste tradutor há {heads}, e elas discordam.',
    notWhy:
      'Ela não diz por quê. Em “The kids were scared of the lions”, a cabeça do tradutor dá quase tudo a “kids”, as crianças. “Crianças” pede “elas”. O modelo escreveu “eles”, com uma probabilidade de {he}; “elas” tinha {she}.',
    noEmbedder:
      'Este servidor não oferece {model}, então a primeira cabeça não pode ser mostrada. A cabeça do tradutor está abaixo.',
    noTranslator:
      'Este servidor não traduz do inglês para o português com o modelo {model}, então a segunda cabeça não pode ser mostrada.',
    nothing: 'Este servidor não oferece nenhum dos dois modelos deste exemplo.',
  },
};
