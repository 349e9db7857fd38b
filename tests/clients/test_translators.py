"""The clients of DeepL, Google Translate and Azure Translator with their defaults."""

from tests.clients.conftest import RunClient


def test_deepl_translates_a_document(run_client: RunClient) -> None:
    """tests/api/test_deepl_clients.py has the other routes."""
    reply = run_client("""
import io
import deepl
client = deepl.DeepLClient("none", server_url=url)
document = io.BytesIO()
client.translate_document("The house is red.", document, target_lang="PT-BR", filename="a.txt")
reply = document.getvalue().decode()
""")
    assert reply == "A casa é vermelha."


def test_google_translates_detects_and_lists(run_client: RunClient) -> None:
    reply = run_client("""
from google.auth.credentials import AnonymousCredentials
from google.cloud import translate_v2
client = translate_v2.Client(
    target_language="pt",
    credentials=AnonymousCredentials(),
    client_options={"api_endpoint": url},
)
texts = client.translate(['The name of the cat is "Tom".', "Good morning."])
reply = [
    [each["translatedText"] for each in texts],
    client.translate("The cat's milk.", format_="text", model="nmt"),
    client.detect_language("O tempo hoje está muito bonito.")["language"],
    [each["name"] for each in client.get_languages()],
]
try:
    client.translate("The cat.", target_language="zz")
except Exception as error:
    reply.append([type(error).__name__, error.message.rpartition(": ")[2]])
""")
    (named, greeting), plain, detected, names, refusal = reply
    assert ("&quot;Tom&quot;" in named, greeting) == (True, "Bom dia.")
    assert plain.items() >= {"model": "nmt", "detectedSourceLanguage": "en"}.items()
    assert (detected, names) == ("pt", ["Inglês", "Português"])
    assert refusal == ["BadRequest", "en, pt"]


def test_azure_translates_detects_and_lists(run_client: RunClient) -> None:
    reply = run_client("""
from azure.ai.translation.text import TextTranslationClient
from azure.core.credentials import AzureKeyCredential
client = TextTranslationClient(
    endpoint=url, credential=AzureKeyCredential("none"), region="westeurope"
)
found = client.translate(
    body=["The house is red. 🎉 It is old.", "O gato."],
    to_language=["pt", "en"],
    include_alignment=True,
    include_sentence_length=True,
    text_type="Plain",
)
first = found[0].translations[0]
reply = [
    [each.detected_language.language for each in found],
    [[each.to, each.text] for each in found[1].translations],
    [first.text, first.alignment.proj, first.sent_len.src_sent_len],
    client.find_sentence_boundaries(body=["How are you? I am fine."])[0].sent_len,
    {code: each.native_name for code, each in
     client.get_supported_languages(scope="translation").translation.items()},
]
try:
    client.translate(body=["The cat."], to_language=["zz"])
except Exception as error:
    reply.append([error.status_code, error.error.code])
""")
    detected, cat, (house, proj, lengths), sentences, names, refusal = reply
    assert detected == ["en", "pt"]
    assert cat == [["pt", "O gato."], ["en", "The cat."]]
    assert house.startswith("A casa é vermelha. 🎉")
    assert proj.startswith("0:2-0:0 4:8-2:5 ")
    assert (lengths, sentences) == ([21, 10], [13, 10])
    assert names == {"en": "English", "pt": "Português"}
    assert refusal == [400, 400036]


def test_deep_translator_translates(run_client: RunClient) -> None:
    """It has no setting for the address."""
    reply = run_client("""
import deep_translator.microsoft as client
azure = "https://api.cognitive.microsofttranslator.com"
client.BASE_URLS["MICROSOFT_TRANSLATE"] = f"{url}/translate?api-version=3.0"
get = client.requests.get
client.requests.get = lambda address, **given: get(address.replace(azure, url), **given)
translators = [
    client.MicrosoftTranslator(api_key="none", source=source, target="portuguese")
    for source in ("auto", "english")
]
reply = [each.translate("The weather is nice.") for each in translators]
""")
    assert reply[0] == reply[1]
    assert "tempo" in reply[0]
