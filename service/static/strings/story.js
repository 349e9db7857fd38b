// The texts of the story: attention step by step, with the numbers of the translator.

/** @type {import('../common/strings.js').Texts} */
export const story = {
  en: {
    title: 'The story: from a word to a translation',
    lead:
      'Follow one word through the translator of this server. Every number comes from the model. Scroll, or use the arrow keys ← and →.',
    follows: 'You follow “{token}” in the sentence “{text}”',
    followsOpening:
      'You follow “{token}” in the sentence as it now stands above: “{text}” If you swap its words, all numbers change.',
    choose: 'Choose another sentence or word',
    chooseText:
      'All numbers change with the word. The story then shows the head in which it looks most at another word.',
    about: 'More about this step',
    steps: 'Steps of the story',
    sentence: 'Sentence of the story, in English',
    use: 'Use this sentence',
    before: 'Previous step',
    after: 'Next step',
    link: 'Link to this step',
    mainSteps: 'Main steps: {count}, about {minutes} minutes',
    allSteps: 'All steps: {count}, about {minutes} minutes',
    all: 'All {count} tokens',
    fewer: 'Fewer tokens',
    progress: 'Step {number} of {count}: {title}',
    progressNone: '{count} steps, about {minutes} minutes',
    waiting: 'The model computes …',
    noModel: 'This server does not translate from English, so there is no model for the story.',
    noAttention: 'The model {model} does not show its attention, so there is no story.',
    group_input: 'Words become numbers',
    group_head: 'One head',
    group_layer: 'One layer',
    group_model: 'The whole model',
    more: '… {count} numbers',
    figures:
      'The stripes show all numbers: blue above 0, grey below. Written numbers are rounded, so a sum can differ in its last digit.',
    token: 'Token',
    follow: 'Token to follow',
    tokens_title: 'Tokens: words become pieces',
    tokens_text:
      'A model does not read letters. It cuts the text into tokens. The small number of a token is its place in the list of all tokens that the model knows.',
    tokens_more:
      '“▁” marks the start of a word; many words are cut into several pieces. Other models mark a later piece of a word with “##”.',
    position_title: 'Position: where does it stand?',
    position_text:
      'Each token has a [[vector]]: a list of {size} numbers, learned in training from many examples. Attention itself knows no order, so a second vector tells the place in the sentence. Both are added.',
    position_none:
      'Each token has a vector: a list of {size} numbers, learned in training. This model adds no vector for the place in the sentence.',
    position_token: '“{token}”',
    position_place: '+ place {place}',
    position_sum: '= sum',
    roles_title: 'Three roles: query, key, value',
    roles_text:
      'Each [[token]], a word or a part of it, becomes a [[vector]] x: a list of numbers. Three learned tables turn x into three short lists. With the [[query]] q, “{token}” looks for other tokens. Its [[key]] k is compared with their queries. Its [[value]] v goes to tokens that look at it.',
    roles_tables:
      'The three lists come from three tables of numbers, W_Q, W_K and W_V, that the model learned in [[training]]; the W stands for weights. The model multiplies x by each of them.',
    roles_place:
      'These are the tables of [[head]] {head} in [[layer]] {layer}. In this head, “{token}” looks strongly at another word: “{most}”. A model has several layers, one after the other. The layers before this one have changed the vector, so x is no longer the vector that the token started with.',
    roles_placeFirst: 'These are the tables of [[head]] {head} in [[layer]] 1. In this head, “{token}” looks strongly at another word: “{most}”.',
    roles_x: 'x of “{token}”',
    roles_q: 'q: looks for',
    roles_k: 'k: offers',
    roles_v: 'v: gives',
    scores_title: 'q · k: which key fits?',
    scores_text:
      'The query of “{token}” is compared with the key of every token. Their numbers are multiplied one by one, and the {size} products are added. The sum is the score: the larger it is, the better they fit. “{most}” has the largest, {score}.',
    scores_idle: 'Heads often look at words that tell us nothing, such as “{most}”.',
    scores_sum: '{products} + … = {score}',
    scores_column: 'q · k',
    scale_title: '÷ √{size}: keep the scores small',
    scale_text:
      'Each score is a sum of {size} products. Before [[training]], they are random: about half are below 0, and many cancel out. Toss {size} coins, and add 1 for one side and −1 for the other. The sum is usually about √{size} = {root} away from 0, not {size}. So a sum of {size} products is about √{size} times as large as one. Dividing by √{size} undoes that.',
    scale_why:
      'From large scores, softmax gives almost all to one token. A small change of the scores then changes almost nothing in the result. But training follows slopes: for each number, it computes how much a small change of it would change the result. Here, the slopes would be near 0, and training would get stuck. Only a trained head makes a score large, as here.',
    scale_compare:
      'In this sentence, “{most}” gets {share}. Without the division, it would get {raw}.',
    scale_column: '÷ √{size}',
    mask_title: 'Mask: do not look ahead',
    mask_text:
      'Some models write a text from left to right. In training they must not see the words that they have to guess. So the scores of later words become −∞, and the next step makes 0 of them. This is a mask.',
    mask_here:
      'Here we are in the [[encoder]], the part that reads. It may see the whole sentence, so nothing is masked, and the next step uses the scores above. The table only shows which scores a mask would hide from “{token}”.',
    mask_column: 'with a mask',
    softmax_title: 'Softmax: from scores to shares',
    softmax_text:
      '[[softmax|Softmax]] turns the scores into shares of 100 %: the attention. “{token}” gives {share} to “{most}”. First, each score is divided by √{size}, so that it stays small. From large scores, softmax would give almost all to one token. Small changes would then change nothing, and [[training]], which follows slopes, would get stuck.',
    softmax_root: 'Why the root of {size}?',
    softmax_more:
      'Softmax takes the number e = 2.718 to the power of each score, and divides each result by their total. A score that is larger by 1 thus gets a share that is 2.7 times as large. The opening above counts words: it adds the shares of the tokens of a word.',
    softmax_column: 'share',
    softmax_total: 'together',
    values_title: '× v: take a part of each',
    values_text:
      'Each token hands over its value v, multiplied by its share. “{most}” hands over {share} of its value; a token with a share near 0 gives almost nothing.',
    values_column: 'share × v',
    sum_title: 'Sum: a mix of the values',
    sum_text:
      'Each token gives its value v, multiplied by its share. All these are added, number by number. The sum z is the information that “{token}” takes from the sentence in this head. Its largest part comes from “{most}”. Written numbers are rounded.',
    sum_rest: '+ the other {count}',
    sum_z: '= z',
    heads_title: 'Heads: several looks at once',
    heads_text:
      'A [[head]] does all this with tables of its own, so each head can look for something else. [[layer|Layer]] {layer} has {count} heads, which work at the same time.',
    heads_end: '“⟨end⟩” is no word: a head that finds nothing to look at often looks there.',
    heads_column: 'Head',
    heads_most: '“{token}” looks most at',
    concat_title: 'Side by side, × W_O',
    concat_text:
      'The sums z of all {count} heads are put side by side: {count} × {size} = {total} numbers. One more table of learned numbers, W_O, mixes them into one vector for “{token}”.',
    concat_more: 'After W_O, the model adds a vector b, which it also learned.',
    concat_all: 'z of all heads',
    concat_result: '× W_O',
    norm_title: 'Add & norm: keep the old, level the new',
    norm_text:
      'The result is added to the vector x that came in, so the token does not forget itself. Norm then shifts and stretches the whole vector, so that its numbers do not grow from layer to layer.',
    norm_more:
      'A number can shrink here although something was added, because norm changes them all. Some models norm before the attention.',
    norm_in: 'x of “{token}”',
    norm_attention: '+ attention',
    norm_out: 'added, normed',
    forward_title: 'Feed-forward: each token alone',
    forward_text:
      'So far the tokens exchanged information. Now two more tables of learned numbers change the vector of each token by itself. Between the two, a bend sets numbers below 0 to 0, or near it. Without the bend, two tables could do no more than one. The result is again added and normed. This is the end of the layer.',
    forward_in: 'after attention',
    forward_change: '+ feed-forward',
    forward_out: 'added, normed',
    encoder_title: 'Encoder: the same again, {layers} times',
    encoder_text:
      'All this happens in each of the {layers} layers of the [[encoder]]. The result of one layer goes into the next, which has learned other numbers. The table shows where “{token}” looks most in each, as the mean of all heads.',
    encoder_column: 'Layer',
    encoder_most: 'mean of the heads: most at',
    decoder_title: 'Decoder: write, and look back',
    decoder_text:
      'The [[decoder]] writes the translation token by token. Before each token, it makes a query from the words that it has written so far, and compares this query with the keys of the text. That is cross-attention. Before it wrote “{written}”, this head looked at “{most}” with {share}.',
    decoder_more:
      'The step shows this head because no other head of its layer looks more at “{token}”.',
    decoder_masked:
      'The decoder takes the words that it has written so far from self-attention with a mask. You see its shares in Translate, below “Look inside”.',
    decoder_recurrent:
      'In this model, the decoder has no self-attention for the words that it has written so far. A running memory, which each new word changes a little, takes its place: an SSRU, a simple recurrent network. Most Transformers have self-attention with a mask there.',
    decoder_unaligned:
      'No word of this translation stands for “{token}”. So this step shows the first word that the decoder wrote.',
    decoder_place: 'Decoder layer {layer}, head {head}',
    words_title: 'The next word: probabilities',
    words_text:
      'The [[decoder]] writes the translation token by token, and looks at the text in the same way. Every token that could come next gets a score, and softmax makes probabilities of the scores. After “{before}” the model took “{written}”, with {share}.',
    words_first:
      'The [[decoder]] writes the translation token by token, and looks at the text in the same way. Every token that could come next gets a score, and softmax makes probabilities of the scores. As the first token the model took “{written}”, with {share}.',
    words_more:
      'The heads of the decoder compare its queries with the keys of the text: this is cross-attention. Before the decoder wrote “{written}”, one of its heads gave {share} to “{most}”.',
    words_candidate: 'Candidate',
    words_probability: 'Probability',
    pool_title: 'Why “{written}”?',
    pool_text:
      'In “pool beats badminton”, “pool” is a game. The model writes “{translation}”: a pool to swim in. One head gives {share} from “pool” to “badminton”. Attention shows where a head looks, not why a word comes out. The likely reason: in [[training]], “pool” was mostly for swimming.',
    pool_other: '“bilhar”, the game, has {share}.',
    pool_context:
      'Yet the model knows the game: “{text}” becomes “{translation}”. So the words around “pool” matter, but “badminton” alone did not change the choice. Attention can bring words together; training decides what follows from it.',
  },
  pt: {
    title: 'A história: de uma palavra à tradução',
    lead:
      'Siga uma palavra pelo tradutor deste servidor. Todos os números vêm do modelo. Role a página, ou use as setas ← e →.',
    follows: 'Você segue “{token}” na frase “{text}”',
    followsOpening:
      'Você segue “{token}” na frase como ela está agora acima: “{text}” Se você trocar as palavras, todos os números mudam.',
    choose: 'Escolher outra frase ou palavra',
    chooseText:
      'Todos os números mudam com a palavra. A história mostra então a cabeça em que ela mais olha para outra palavra.',
    about: 'Mais sobre este passo',
    steps: 'Passos da história',
    sentence: 'Frase da história, em inglês',
    use: 'Usar esta frase',
    before: 'Passo anterior',
    after: 'Próximo passo',
    link: 'Link deste passo',
    mainSteps: 'Passos principais: {count}, cerca de {minutes} minutos',
    allSteps: 'Todos os passos: {count}, cerca de {minutes} minutos',
    all: 'Todos os {count} tokens',
    fewer: 'Menos tokens',
    progress: 'Passo {number} de {count}: {title}',
    progressNone: '{count} passos, cerca de {minutes} minutos',
    waiting: 'O modelo está calculando …',
    noModel: 'Este servidor não traduz do inglês, então não há modelo para a história.',
    noAttention: 'O modelo {model} não mostra a sua atenção, então não há história.',
    group_input: 'Palavras viram números',
    group_head: 'Uma cabeça',
    group_layer: 'Uma camada',
    group_model: 'O modelo inteiro',
    more: '… {count} números',
    figures:
      'As faixas mostram todos os números: azul acima de 0, cinza abaixo. Os números escritos são arredondados, então uma soma pode diferir no último dígito.',
    token: 'Token',
    follow: 'Token a seguir',
    tokens_title: 'Tokens: palavras viram pedaços',
    tokens_text:
      'Um modelo não lê letras. Ele corta o texto em tokens. O número pequeno de um token é o seu lugar na lista de todos os tokens que o modelo conhece.',
    tokens_more:
      '“▁” marca o começo de uma palavra; muitas palavras são cortadas em vários pedaços. Outros modelos marcam com “##” um pedaço do meio de uma palavra.',
    position_title: 'Posição: onde ele está?',
    position_text:
      'Cada token tem um [[vector|vetor]]: uma lista de {size} números, aprendida no treino com muitos exemplos. A atenção sozinha não conhece a ordem, então um segundo vetor diz o lugar na frase. Os dois são somados.',
    position_none:
      'Cada token tem um vetor: uma lista de {size} números, aprendida no treino. Este modelo não soma um vetor para o lugar na frase.',
    position_token: '“{token}”',
    position_place: '+ lugar {place}',
    position_sum: '= soma',
    roles_title: 'Três papéis: consulta, chave, valor',
    roles_text:
      'Cada [[token]], uma palavra ou parte dela, vira um [[vector|vetor]] x: uma lista de números. Três tabelas aprendidas fazem de x três listas curtas. Com a [[query|consulta]] q, “{token}” procura outros tokens. A sua [[key|chave]] k é comparada com as consultas deles. O seu [[value|valor]] v vai aos tokens que o procuram.',
    roles_tables:
      'As três listas vêm de três tabelas de números, W_Q, W_K e W_V, que o modelo aprendeu no [[training|treino]]; o W vem de “weights”, pesos. O modelo multiplica x por cada uma delas.',
    roles_place:
      'Estas são as tabelas da [[head|cabeça]] {head} da [[layer|camada]] {layer}. Nesta cabeça, “{token}” olha muito para outra palavra: “{most}”. Um modelo tem várias camadas, uma depois da outra. As camadas anteriores já mudaram o vetor, então x não é mais o vetor com que o token começou.',
    roles_placeFirst: 'Estas são as tabelas da [[head|cabeça]] {head} da [[layer|camada]] 1. Nesta cabeça, “{token}” olha muito para outra palavra: “{most}”.',
    roles_x: 'x de “{token}”',
    roles_q: 'q: procura',
    roles_k: 'k: oferece',
    roles_v: 'v: dá',
    scores_title: 'q · k: qual chave combina?',
    scores_text:
      'A consulta de “{token}” é comparada com a chave de cada token. Os números são multiplicados um a um, e os {size} produtos são somados. A soma é a pontuação: quanto maior, melhor combinam. “{most}” tem a maior, {score}.',
    scores_idle: 'Cabeças muitas vezes olham para palavras que não nos dizem nada, como “{most}”.',
    scores_sum: '{products} + … = {score}',
    scores_column: 'q · k',
    scale_title: '÷ √{size}: manter as pontuações pequenas',
    scale_text:
      'Cada pontuação é uma soma de {size} produtos. Antes do [[training|treino]], eles são ao acaso: cerca de metade está abaixo de 0, e muitos se cancelam. Jogue {size} moedas, e some 1 para um lado e −1 para o outro. A soma costuma ficar a cerca de √{size} = {root} de 0, não a {size}. Uma soma de {size} produtos é então cerca de √{size} vezes maior que um só. Dividir por √{size} desfaz isso.',
    scale_why:
      'Com pontuações grandes, a softmax dá quase tudo a um só token. Uma pequena mudança das pontuações então não muda quase nada no resultado. Mas o treino segue inclinações: para cada número, ele calcula quanto uma pequena mudança dele mudaria o resultado. Aqui, as inclinações ficariam perto de 0, e o treino ficaria parado. Apenas uma cabeça treinada faz uma pontuação grande, como aqui.',
    scale_compare: 'Nesta frase, “{most}” recebe {share}. Sem a divisão, receberia {raw}.',
    scale_column: '÷ √{size}',
    mask_title: 'Máscara: não olhar adiante',
    mask_text:
      'Alguns modelos escrevem um texto da esquerda para a direita. No treino eles não podem ver as palavras que devem adivinhar. Por isso as pontuações das palavras seguintes viram −∞, e o próximo passo faz delas 0. Isto é uma máscara.',
    mask_here:
      'Aqui estamos no [[encoder|codificador]], a parte que lê. Ele pode ver a frase inteira, então nada tem máscara, e o próximo passo usa as pontuações acima. A tabela só mostra quais pontuações uma máscara esconderia de “{token}”.',
    mask_column: 'com máscara',
    softmax_title: 'Softmax: das pontuações às partes',
    softmax_text:
      'A [[softmax]] transforma as pontuações em partes de 100 %: a atenção. “{token}” dá {share} a “{most}”. Antes, cada pontuação é dividida por √{size}, para ficar pequena. Com pontuações grandes, a softmax daria quase tudo a um só token. Pequenas mudanças então não mudariam nada, e o [[training|treino]], que segue inclinações, ficaria parado.',
    softmax_root: 'Por que a raiz de {size}?',
    softmax_more:
      'A softmax eleva o número e = 2,718 a cada pontuação, e divide cada resultado pelo total deles. Uma pontuação maior em 1 recebe assim uma parte 2,7 vezes maior. A abertura acima conta palavras: ela soma as partes dos tokens de uma palavra.',
    softmax_column: 'parte',
    softmax_total: 'juntas',
    values_title: '× v: levar uma parte de cada um',
    values_text:
      'Cada token entrega o seu valor v, multiplicado pela sua parte. “{most}” entrega {share} do seu valor; um token com parte perto de 0 não dá quase nada.',
    values_column: 'parte × v',
    sum_title: 'Soma: uma mistura dos valores',
    sum_text:
      'Cada token dá o seu valor v, multiplicado pela sua parte. Tudo é somado, número por número. A soma z é a informação que “{token}” tira da frase nesta cabeça. A maior parte dela vem de “{most}”. Os números escritos são arredondados.',
    sum_rest: '+ os outros {count}',
    sum_z: '= z',
    heads_title: 'Cabeças: vários olhares ao mesmo tempo',
    heads_text:
      'Uma [[head|cabeça]] faz tudo isto com as suas próprias tabelas, então cada cabeça pode procurar outra coisa. A [[layer|camada]] {layer} tem {count} cabeças, que trabalham ao mesmo tempo.',
    heads_end:
      '“⟨fim⟩” não é palavra: uma cabeça que não acha nada para olhar muitas vezes olha para lá.',
    heads_column: 'Cabeça',
    heads_most: '“{token}” olha mais para',
    concat_title: 'Lado a lado, × W_O',
    concat_text:
      'As somas z de todas as {count} cabeças são postas lado a lado: {count} × {size} = {total} números. Mais uma tabela de números aprendidos, W_O, mistura tudo em um vetor para “{token}”.',
    concat_more: 'Depois de W_O, o modelo soma um vetor b, que também aprendeu.',
    concat_all: 'z de todas',
    concat_result: '× W_O',
    norm_title: 'Somar e normalizar: guardar o antigo',
    norm_text:
      'O resultado é somado ao vetor x que entrou, assim o token não se esquece de si. A normalização desloca e estica o vetor inteiro, para que os números não cresçam de camada em camada.',
    norm_more:
      'Um número pode diminuir aqui embora algo tenha sido somado, porque a normalização muda todos. Alguns modelos normalizam antes da atenção.',
    norm_in: 'x de “{token}”',
    norm_attention: '+ atenção',
    norm_out: 'normalizado',
    forward_title: 'Feed-forward: cada token sozinho',
    forward_text:
      'Até aqui os tokens trocaram informação. Agora mais duas tabelas de números aprendidos mudam o vetor de cada token sozinho. Entre as duas, uma dobra leva os números abaixo de 0 a 0, ou perto disso. Sem a dobra, duas tabelas não fariam mais do que uma. O resultado é de novo somado e normalizado. Aqui termina a camada.',
    forward_in: 'depois da atenção',
    forward_change: '+ feed-forward',
    forward_out: 'normalizado',
    encoder_title: 'Codificador: o mesmo, {layers} vezes',
    encoder_text:
      'Tudo isto acontece em cada uma das {layers} camadas do [[encoder|codificador]]. O resultado de uma camada entra na próxima, que aprendeu outros números. A tabela mostra para onde “{token}” mais olha em cada uma, na média das cabeças.',
    encoder_column: 'Camada',
    encoder_most: 'média das cabeças: mais para',
    decoder_title: 'Decodificador: escrever e olhar para trás',
    decoder_text:
      'O [[decoder|decodificador]] escreve a tradução token por token. Antes de cada token, ele faz uma consulta com as palavras que já escreveu, e a compara com as chaves do texto. Isto é a atenção cruzada. Antes de escrever “{written}”, esta cabeça olhou para “{most}” com {share}.',
    decoder_more:
      'O passo mostra esta cabeça porque nenhuma outra da sua camada olha mais para “{token}”.',
    decoder_masked:
      'O decodificador tira as palavras que já escreveu da autoatenção com máscara. Você vê as partes dela em Traduzir, em “Veja por dentro”.',
    decoder_recurrent:
      'Neste modelo, o decodificador não tem autoatenção para as palavras que já escreveu. No lugar dela há uma memória que cada palavra nova muda um pouco: uma SSRU, uma rede recorrente simples. A maioria dos Transformers tem ali a autoatenção com máscara.',
    decoder_unaligned:
      'Nenhuma palavra desta tradução corresponde a “{token}”. Por isso este passo mostra a primeira palavra que o decodificador escreveu.',
    decoder_place: 'Camada {layer} do decodificador, cabeça {head}',
    words_title: 'A próxima palavra: probabilidades',
    words_text:
      'O [[decoder|decodificador]] escreve a tradução token por token, e olha para o texto do mesmo jeito. Cada token que poderia vir recebe uma pontuação, e a softmax transforma as pontuações em probabilidades. Depois de “{before}” o modelo escolheu “{written}”, com {share}.',
    words_first:
      'O [[decoder|decodificador]] escreve a tradução token por token, e olha para o texto do mesmo jeito. Cada token que poderia vir recebe uma pontuação, e a softmax transforma as pontuações em probabilidades. Como primeiro token o modelo escolheu “{written}”, com {share}.',
    words_more:
      'As cabeças do decodificador comparam as consultas dele com as chaves do texto: isto é a atenção cruzada. Antes de o decodificador escrever “{written}”, uma das suas cabeças deu {share} a “{most}”.',
    words_candidate: 'Candidato',
    words_probability: 'Probabilidade',
    pool_title: 'Por que “{written}”?',
    pool_text:
      'Em “pool beats badminton”, “pool” é bilhar, um jogo. O modelo escreve “{translation}”. Uma cabeça dá {share} de “pool” a “badminton”. A atenção mostra para onde uma cabeça olha, não por que uma palavra sai. A razão provável: no [[training|treino]], “pool” era quase sempre piscina.',
    pool_other: '“bilhar”, o jogo, tem {share}.',
    pool_context:
      'Mas o modelo conhece o jogo: “{text}” vira “{translation}”. Então as palavras em volta de “pool” importam, mas só “badminton” não mudou a escolha. A atenção pode juntar palavras; o treino decide o que resulta disso.',
  },
};
