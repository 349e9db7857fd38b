// The texts of the test of causes: the translator without one of its parts.

/** @type {import('../common/strings.js').Texts} */
export const cause = {
  en: {
    title: 'What did it need for “eles”? Take a part away',
    lead: 'To see what a part does, switch it off and let the model translate again. If a word becomes much less likely, the model needed that part for it. This test rounds some numbers differently from the translation above, so its first row can differ by one percentage point.',
    caption: 'The first sentence, translated without one part',
    without: 'Switched off',
    likely: 'Probability of “eles”',
    translation: 'Translation',
    nothing: 'nothing',
    head: 'head {head} of layer {layer}, which looks at “kids”',
    word: 'the word “{word}”',
    headSame:
      'Without the head, the translation stays the same, although the head gave {share} of the attention of “they” to “kids”. Much attention does not mean much influence.',
    headMore: 'Without the head, “eles” even becomes more likely. The parts of a model can work against each other.',
    headOther: 'Without the head, the model translates differently: here it has an influence.',
    needed: 'The model needs the word “{word}”: without it, “eles” falls from {before} to {after}. Why “eles” and not “elas”, this test does not tell.',
  },
  pt: {
    title: 'Do que ele precisava para “eles”? Tire uma parte',
    lead: 'Para ver o que uma parte faz, desligue-a e deixe o modelo traduzir de novo. Se uma palavra fica muito menos provável, o modelo precisava dessa parte para ela. Este teste arredonda alguns números de um jeito diferente da tradução acima, então a primeira linha pode diferir em um ponto percentual.',
    caption: 'A primeira frase, traduzida sem uma parte',
    without: 'Desligado',
    likely: 'Probabilidade de “eles”',
    translation: 'Tradução',
    nothing: 'nada',
    head: 'a cabeça {head} da camada {layer}, que olha para “kids”',
    word: 'a palavra “{word}”',
    headSame:
      'Sem a cabeça, a tradução continua igual, embora a cabeça desse a “kids” {share} da atenção de “they”. Muita atenção não quer dizer muita influência.',
    headMore: 'Sem a cabeça, “eles” fica até mais provável. As partes de um modelo podem agir umas contra as outras.',
    headOther: 'Sem a cabeça, o modelo traduz de outro jeito: aqui ela tem influência.',
    needed: 'O modelo precisa da palavra “{word}”: sem ela, “eles” cai de {before} para {after}. Por que “eles” e não “elas”, este teste não diz.',
  },
};
