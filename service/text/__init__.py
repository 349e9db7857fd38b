"""Work on texts before and after translation: languages, sentences, protected spans, formatting."""
