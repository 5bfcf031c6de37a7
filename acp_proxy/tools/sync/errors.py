"""What an engine's error means, and what the user can do. Pure."""

import re
from html import unescape

_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_ENDPOINTS = {"s3": "AWS_ENDPOINT and AWS_REGION", "az": "AZURE_STORAGE_ENDPOINT"}
_ALLOW_HTTP = {"s3": "AWS_ALLOW_HTTP", "gs": "GOOGLE_ALLOW_HTTP", "az": "AZURE_ALLOW_HTTP"}
_NO_CREDENTIALS = re.compile(
    r"/latest/api/token|169\.254\.169\.254|metadata\.google|Account must be specified|Missing (?:Secret)?AccessKey"
)
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist")
_REFUSED = re.compile(
    r"\b40[13] (?:Unauthorized|Forbidden)|AccessKey|access key|SignatureDoesNotMatch|AccessDenied|not authorized|"
    "lacked the necessary privileges",
)
_ERROR_CODE = re.compile(r"<Code>([^<]+)</Code>\s*(?:<Message>([^<]+)</Message>)?")


def explain(text: str, scheme: str) -> str:
    """What the user is told of an error. ``text``: the engine's message. ``scheme``: of the place's URL."""
    match = _ERROR_CODE.search(text)
    reason = unescape(f"{match[2] or match[1]}").strip().rstrip(".") if match is not None else ""
    names = _CREDENTIALS.get(scheme, "the credentials in the environment")
    if "BadScheme" in text:
        return f"plain HTTP is not allowed. Use https, or set {_ALLOW_HTTP.get(scheme, 'AWS_ALLOW_HTTP')}=true"
    if "conditional put is disabled" in text:
        return "AWS_CONDITIONAL_PUT turns off what sync needs. Unset it"
    if "Unable to canonicalize" in text:
        return "there is no such directory. Is the drive mounted?"
    if "Not a directory" in text:
        return "it is a file, or below one. Name a directory"
    if _NO_CREDENTIALS.search(text):
        return f"there are no credentials. Set {names}"
    if _NO_BUCKET.search(text):
        return "there is no such bucket. Create it, or check the URL"
    if _REFUSED.search(text):
        return f"the credentials were refused{f' ({reason})' if reason else ''}. Check {names}"
    if "error sending request" in text:
        why = "its host name is unknown" if "dns error" in text else "it does not answer"
        return f"{why}. Check the network{f', {_ENDPOINTS[scheme]}' if scheme in _ENDPOINTS else ''}"
    return reason or text.partition("\n")[0].strip()
