"""Sentences to send, requests to `POST /translate`, and the translations in their replies.

The sentences are the lines of a file, or built-in sentences of 5 to 32 words each.
"""

import asyncio
import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from benchmarks.bench.client import Address, BenchError, Reply, send_once

END_MARKS = (".", "!", "?", "...", ";", "!!", "?!", ":")
"""Marks at the end of a sentence. A different mark hardly changes the translation."""

_ENGLISH = """
The train leaves at nine. She put the wet umbrella behind the door and asked whether anyone had seen
her keys. Our neighbours keep three goats. When the old bridge was closed for repairs, the whole
village had to drive an extra twenty kilometres to reach the hospital, the school and the only bank
that was still open. Please send the signed form before Friday afternoon. The museum has bought a
small painting that nobody had looked at for more than a hundred years. He cooks better than his
brother. Although the company lost money in the first half of the year, the director told the staff
that nobody would be dismissed and that wages would rise slightly in January. How much does this
lamp cost? The river was so low last summer that people could walk across it without getting their
knees wet. Turn off the light when you leave the room. Two students found the mistake in the
textbook and wrote a polite letter to its author. The new law does not apply to shops with fewer
than ten employees, but they must still keep a record of the hours that each person has worked. My
grandmother never learned to drive. A good translation says what the writer meant, in words that the
reader would have chosen. The battery lasts about six hours, or eight if the screen is kept dark. We
waited for the bus until it was too late to go home on foot. It will rain again tomorrow morning.
The doctor explained that the treatment would take several weeks, that it might cause headaches and
that she could stop at any time without giving a reason. Nobody knows who built this wall. The
children were told to stay near the tents because a bear had been seen by the lake. If you add the
salt too early, the beans will stay hard however long you boil them. Farmers in the north expect a
better harvest than last year. The library opens at ten on weekdays and stays closed on Sundays and
public holidays. After the match both teams thanked the volunteers, who had cleared the snow from
the field during the night so that the game would not have to be postponed a second time. Is there a
pharmacy near the station? The engineer checked every valve twice before she allowed the water to
flow. This model of telephone is no longer sold, yet spare parts can be ordered for another five
years. He answered the letter at once. Scientists have counted the birds on the island each spring
since the lighthouse was built, and the numbers have never been as low as they are now. The price
includes breakfast but not the tax that the city asks of every visitor. You should have told me
yesterday. The meeting was moved to the small room because the heating in the large one had failed.
Most accidents happen close to home, where people feel safe and pay less attention to the road. Her
first novel was refused by eleven publishers. The software asks for your name, your address and the
number on the back of the card, although it needs none of them to show you the timetable. The soup
is too hot to eat. In the evening the fishermen mend their nets and talk about the weather of the
coming week. The court decided that the letter had arrived in time and that the fine must be paid
back. Some words have no exact equivalent in another language, and a translator has to decide what
to give up.
"""

_PORTUGUESE = """
O trem sai às nove. Ela deixou o guarda-chuva molhado atrás da porta e perguntou se alguém tinha
visto as suas chaves. Os nossos vizinhos criam três cabras. Quando a ponte velha foi fechada para
obras, a aldeia inteira teve de percorrer mais vinte quilômetros para chegar ao hospital, à escola e
ao único banco que ainda estava aberto. Envie o formulário assinado antes de sexta-feira à tarde. O
museu comprou um pequeno quadro para o qual ninguém olhava havia mais de cem anos. Ele cozinha
melhor que o irmão. Embora a empresa tenha perdido dinheiro no primeiro semestre, a diretora disse
aos funcionários que ninguém seria demitido e que os salários subiriam um pouco em janeiro. Quanto
custa este candeeiro de mesa? O rio estava tão baixo no verão passado que se podia atravessá-lo sem
molhar os joelhos. Apague a luz quando sair da sala. Dois estudantes encontraram o erro no manual e
escreveram uma carta educada à autora. A nova lei não se aplica a lojas com menos de dez empregados,
mas elas ainda precisam registrar as horas que cada pessoa trabalhou. A minha avó nunca aprendeu a
dirigir. Uma boa tradução diz o que o autor quis dizer, com as palavras que o leitor teria
escolhido. A bateria dura cerca de seis horas, ou oito se a tela ficar escura. Esperamos pelo ônibus
até ser tarde demais para voltar a pé para casa. Amanhã de manhã vai chover outra vez. A médica
explicou que o tratamento levaria várias semanas, que poderia causar dores de cabeça e que a
paciente podia parar a qualquer momento sem dar um motivo. Ninguém sabe quem construiu este muro.
Disseram às crianças que ficassem perto das barracas porque um urso tinha sido visto junto ao lago.
Se você puser o sal cedo demais, o feijão vai continuar duro por mais que o cozinhe. Os agricultores
do norte esperam uma colheita melhor que a do ano passado. A biblioteca abre às dez nos dias úteis e
fica fechada aos domingos e feriados. Depois do jogo, as duas equipes agradeceram aos voluntários,
que tinham tirado a neve do campo durante a noite para que a partida não fosse adiada pela segunda
vez. Há uma farmácia perto da estação? A engenheira verificou cada válvula duas vezes antes de
deixar a água correr. Este modelo de telefone já não se vende, mas é possível encomendar peças por
mais cinco anos. Ele respondeu logo à carta. Os cientistas contam as aves da ilha todas as
primaveras desde que o farol foi construído, e os números nunca foram tão baixos como agora. O preço
inclui o café da manhã, mas não a taxa que a cidade cobra de cada visitante. Você devia ter me dito
isso ontem. A reunião passou para a sala pequena porque o aquecimento da grande tinha deixado de
funcionar. A maioria dos acidentes acontece perto de casa, onde as pessoas se sentem seguras e
prestam menos atenção à estrada. O seu primeiro romance foi recusado por onze editoras. O programa
pede o seu nome, o seu endereço e o número que está no verso do cartão, embora não precise de nada
disso para mostrar os horários. A sopa está quente demais para comer. À noite os pescadores
consertam as redes e conversam sobre o tempo da semana que vem. O tribunal decidiu que a carta tinha
chegado a tempo e que a multa devia ser devolvida. Algumas palavras não têm equivalente exato em
outra língua, e o tradutor precisa decidir do que vai abrir mão.
"""


def _sentences(text: str) -> tuple[str, ...]:
    return tuple(re.split(r"(?<=[.?!]) ", " ".join(text.split())))


SENTENCES = {"en": _sentences(_ENGLISH), "pt": _sentences(_PORTUGUESE)}


def built_in_sentences(language: str) -> Sequence[str]:
    if language not in SENTENCES:
        raise BenchError(
            f"no built-in sentences for {language!r}, only for {', '.join(SENTENCES)}; "
            "give --source FILE"
        )
    return SENTENCES[language]


def sentences_of(source: Path | None, pair: str) -> Sequence[str]:
    return built_in_sentences(split_pair(pair)[0]) if source is None else read_lines(source)


def read_lines(path: Path) -> list[str]:
    r"""Reads one sentence per line. Only `\n` and `\r\n` end a line, as in sacreBLEU."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BenchError(f"{path} is not UTF-8 ({error}); convert it first") from error
    if not text.strip():
        raise BenchError(f"{path} is empty; it needs one sentence per line")
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def read_parallel(source: Path, other: Path) -> list[str]:
    """Returns the lines of `other`, and checks that `source` has the same number of lines."""
    wanted, lines = len(read_lines(source)), read_lines(other)
    if len(lines) != wanted:
        raise BenchError(
            f"{source} has {wanted} lines but {other} has {len(lines)}; "
            "line n of one must belong to line n of the other"
        )
    return lines


def with_other_ends(sentences: Sequence[str]) -> list[str]:
    """Returns one copy of each sentence for each mark of END_MARKS; the copy ends with the mark.

    If several equal sentences are in progress, a server computes only one of them. Different
    sentences therefore show how many sentences the server can compute.
    """
    bare = [sentence.strip().rstrip(".!?") for sentence in sentences if sentence.strip()]
    return [sentence + mark for mark in END_MARKS for sentence in bare]


LIST_TIMEOUT_SECONDS = 600.0


def split_pair(pair: str) -> tuple[str, str]:
    """Splits `en-pt` or `en-zh-Hans` into source and target language."""
    source, _, target = pair.partition("-")
    if not source or not target:
        raise BenchError(f"pair {pair!r} is not SOURCE-TARGET; give it as en-pt")
    return source, target


def translate_request(
    address: Address,
    pair: str,
    q: str | Sequence[str],
    split_sentences: bool,
    timeout_ms: int | None = None,
) -> bytes:
    source, target = split_pair(pair)
    body = {"q": q, "source": source, "target": target, "split_sentences": split_sentences}
    return address.request("POST", "/translate", orjson.dumps(body), timeout_ms)


def unusable(reply: Reply, num_texts: int, path: str = "/translate") -> BenchError:
    """Returns the error for a reply that does not have one result for each of `num_texts` texts."""
    return BenchError(
        f"{path} answered {reply.status} to a request with {num_texts} text(s), and the reply does "
        f"not have {num_texts} result(s): {reply.excerpt}"
    )


async def translate(
    address: Address,
    pair: str,
    lists: Sequence[Sequence[str]],
    split_sentences: bool,
    num_clients: int = 1,
    pause: Callable[[], float] = lambda: 0.0,
) -> list[str]:
    """Translates lists of texts, one list per request; returns all translations in order."""
    results: list[Sequence[str]] = [()] * len(lists)
    waiting = iter(enumerate(lists))

    async def client() -> None:
        for place, texts in waiting:
            await asyncio.sleep(pause())
            request = translate_request(address, pair, texts, split_sentences)
            reply = await send_once(address, request, LIST_TIMEOUT_SECONDS)
            results[place] = _translations(reply, len(texts))

    await asyncio.gather(*(client() for _ in range(num_clients)))
    return list(itertools.chain.from_iterable(results))


async def post_texts(
    address: Address, path: str, body: dict[str, Any], num_texts: int
) -> dict[str, Any]:
    request = address.request("POST", path, orjson.dumps(body))
    reply = await send_once(address, request, LIST_TIMEOUT_SECONDS)
    if reply.status != 200:
        raise unusable(reply, num_texts, path)
    fields: dict[str, Any] = orjson.loads(reply.body)
    return fields


def in_lists(sentences: Sequence[str], size: int) -> list[Sequence[str]]:
    return [sentences[start : start + size] for start in range(0, len(sentences), size)]


def _translations(reply: Reply, num_texts: int) -> list[str]:
    try:
        translations = orjson.loads(reply.body)["translatedText"] if reply.status == 200 else None
    except (orjson.JSONDecodeError, LookupError, TypeError):  # the error below shows the body
        translations = None
    if not isinstance(translations, list) or len(translations) != num_texts:
        raise unusable(reply, num_texts)
    return translations
