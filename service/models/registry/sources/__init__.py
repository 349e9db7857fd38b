"""The registries of models, and downloads from them.

http_client  GET requests with retries (httpx2)
download     downloads one file: resumes, checks, and renames it when it is complete
hub          Hugging Face's registry (huggingface_hub)
firefox      Mozilla's registry
"""
