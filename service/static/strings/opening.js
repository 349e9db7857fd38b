// The texts of the opening: the sentence of the kids and the lions.

/** @type {import('../common/strings.js').Texts} */
export const opening = {
  en: {
    section: 'Understand attention',
    title: 'Who left: the kids or the lions?',
    lead: 'You know it at once: “they” are the ones who were scared. A model has to look for it, and attention is how it looks. A model has many such looks, called heads. The arc shows where the word “they” looks most in one of them.',
    swap: 'Swap kids and lions',
    turn: 'Say “scared” instead of “were scared of”',
    turnBack: 'Back to “were scared of”',
    reads: '“they” looks at “{word}”: {share}',
    place: 'Head {head} of layer {layer} in {model}. “{other}” gets {share}, and the other words share the rest.',
    waiting: 'The model reads the sentence …',
    agrees:
      'The head looks at the word that you mean, too: the ones who were scared. Does it understand, or does it take the first noun? Try both buttons.',
    differs:
      'Now the “{scared}” are scared, but the head looks at “{word}”. It seems to look for the subject of the sentence. It has not understood fear.',
    elsewhere: 'This head looks at neither the kids nor the lions.',
    twistTitle: 'Another head: does it follow the swap?',
    twist:
      'The translator of this server is another model. It has a head that also links “they” to a noun. Swap the words with the button above and watch it.',
    twistSame:
      'It says “{word}”, whoever was scared. It links “they” to the word “kids”, wherever that stands.',
    twistOther: 'Here it looks at “{word}”.',
    tableTitle: 'Both heads on all four sentences',
    tableSentence: 'Sentence',
    tableHead: '{model}, layer {layer}, head {head}',
    tableScared: 'Who is scared',
    tellsTitle: 'What attention tells you, and what it does not',
    tells:
      'It tells you from which words a word takes information, in one head of one layer. These numbers are exact: the model computes with them.',
    oneOfMany:
      'It does not tell you the whole story. These are two heads. This translator has {heads} of them in its encoder alone, and they disagree.',
    notWhy:
      'It does not tell you why. In the first sentence the translator’s head gives nearly all to “kids”, in Portuguese “crianças”. That word is feminine and needs the pronoun “elas” (they). The model wrote the masculine “eles”, with a probability of {he}; “elas” had {she}.',
    noEmbedder:
      'This server does not serve {model}, so the first head cannot be shown. The translator’s head is below.',
    noTranslator:
      'This server does not translate from English to Portuguese with the model {model}, so the second head cannot be shown.',
    nothing: 'This server serves neither of the two models of this example.',
  },
  pt: {
    section: 'Entender a atenção',
    title: 'Quem fugiu: as crianças ou os leões?',
    lead: 'A frase diz: “As crianças tinham medo dos leões, então fugiram logo.” Você sabe na hora quem são “they” (eles): os que tinham medo. Um modelo precisa procurar, e a atenção é o jeito de procurar. Um modelo tem muitos olhares assim, chamados cabeças. O arco mostra para onde a palavra “they” mais olha em um deles.',
    swap: 'Trocar kids e lions',
    turn: 'Dizer “scared” em vez de “were scared of”',
    turnBack: 'Voltar a “were scared of”',
    reads: '“they” olha para “{word}”: {share}',
    place:
      'Cabeça {head} da camada {layer} em {model}. “{other}” recebe {share}, e as outras palavras dividem o resto.',
    waiting: 'O modelo está lendo a frase …',
    agrees:
      'A cabeça olha para a mesma palavra que você: os que tinham medo. Ela entende, ou toma o primeiro substantivo? Experimente os dois botões.',
    differs:
      'Agora quem tem medo são os “{scared}”, mas a cabeça olha para “{word}”. Parece que ela procura o sujeito da frase. Ela não entendeu o medo.',
    elsewhere: 'Esta cabeça não olha nem para as crianças (kids) nem para os leões (lions).',
    twistTitle: 'Outra cabeça: ela segue a troca?',
    twist:
      'O tradutor deste servidor é outro modelo. Ele tem uma cabeça que também liga “they” a um substantivo. Troque as palavras com o botão acima e observe.',
    twistSame:
      'Ela diz “{word}”, não importa quem teve medo. Ela liga “they” à palavra “kids”, onde quer que esteja.',
    twistOther: 'Aqui ela olha para “{word}”.',
    tableTitle: 'As duas cabeças nas quatro frases',
    tableSentence: 'Frase',
    tableHead: '{model}, camada {layer}, cabeça {head}',
    tableScared: 'Quem tem medo',
    tellsTitle: 'O que a atenção diz, e o que ela não diz',
    tells:
      'Ela diz de quais palavras uma palavra tira informação, em uma cabeça de uma camada. Estes números são exatos: o modelo calcula com eles.',
    oneOfMany:
      'Ela não conta a história inteira. Estas são duas cabeças. Só no codificador deste tradutor há {heads}, e elas discordam.',
    notWhy:
      'Ela não diz por quê. Na primeira frase, a cabeça do tradutor dá quase tudo a “kids”, as crianças. “Crianças” pede “elas”. O modelo escreveu “eles”, com uma probabilidade de {he}; “elas” tinha {she}.',
    noEmbedder:
      'Este servidor não oferece {model}, então a primeira cabeça não pode ser mostrada. A cabeça do tradutor está abaixo.',
    noTranslator:
      'Este servidor não traduz do inglês para o português com o modelo {model}, então a segunda cabeça não pode ser mostrada.',
    nothing: 'Este servidor não oferece nenhum dos dois modelos deste exemplo.',
  },
};
