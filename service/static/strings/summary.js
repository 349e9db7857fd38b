// The texts of the end of the story, and of the examples.

/** @type {import('../common/strings.js').Texts} */
export const summary = {
  en: {
    title: 'Attention in five sentences',
    roles: 'Each token asks with a query, offers a key, and gives a value.',
    rolesLink: 'Query, key, value',
    softmax:
      'Query and key, of d numbers each, are multiplied, divided by √d and turned into shares: these shares are the attention.',
    softmaxLink: 'Scores and softmax',
    sum: 'Each token then takes a mix of all values, by these shares.',
    sumLink: 'The sum',
    heads: 'Each layer has many heads, each with tables of its own, and one layer follows the other.',
    headsLink: 'The heads',
    words:
      'A share tells where a head takes information from; it does not tell why the model chose a word.',
    wordsLink: 'The probabilities',
    examplesTitle: 'More to look at',
    kidsText: 'The kids were scared of the lions, so they left right away.',
    kidsCaption: '“they” and “kids”, from the first number to the last.',
    poolText: 'pool beats badminton',
    poolCaption: 'Does “pool” look at “badminton”? See all heads, ranked by how much.',
    nlpText: 'I like Natural Language Processing , a lot !',
    nlpCaption: 'What does “I” collect from the other tokens? See its weighted sum.',
    hiText: 'Hi, How are you?',
    hiCaption: 'The shares of a short sentence, from its scores.',
    actionText: 'Action gets results',
    actionCaption: 'q · k, ÷ √d, softmax, × v and the sum, for three words.',
    translateText: 'The kids were scared of the lions, so they left right away.',
    translateCaption: 'The same sentence in Translate, with the attention of every head.',
  },
  pt: {
    title: 'Atenção em cinco frases',
    roles: 'Cada token pergunta com uma consulta, oferece uma chave e dá um valor.',
    rolesLink: 'Consulta, chave, valor',
    softmax:
      'Consulta e chave, de d números cada, são multiplicadas, divididas por √d e transformadas em partes: estas partes são a atenção.',
    softmaxLink: 'Pontuação e softmax',
    sum: 'Depois cada token leva uma mistura de todos os valores, conforme estas partes.',
    sumLink: 'A soma',
    heads:
      'Cada camada tem muitas cabeças, cada uma com as suas tabelas, e uma camada segue a outra.',
    headsLink: 'As cabeças',
    words:
      'Uma parte diz de onde uma cabeça tira informação; não diz por que o modelo escolheu uma palavra.',
    wordsLink: 'As probabilidades',
    examplesTitle: 'Mais para ver',
    kidsText: 'The kids were scared of the lions, so they left right away.',
    kidsCaption: '“they” e “kids”, do primeiro número ao último.',
    poolText: 'pool beats badminton',
    poolCaption: '“pool” olha para “badminton”? Veja todas as cabeças, da que mais olha à que menos olha.',
    nlpText: 'I like Natural Language Processing , a lot !',
    nlpCaption: 'O que “I” junta dos outros tokens? Veja a sua soma ponderada.',
    hiText: 'Hi, How are you?',
    hiCaption: 'As partes de uma frase curta, a partir das pontuações.',
    actionText: 'Action gets results',
    actionCaption: 'q · k, ÷ √d, softmax, × v e a soma, para três palavras.',
    translateText: 'The kids were scared of the lions, so they left right away.',
    translateCaption: 'A mesma frase em Traduzir, com a atenção de cada cabeça.',
  },
};
