"""For .ci/wheel, with Python alone: a PDF made by hand; a server that is started, asked, stopped.

python .ci/serves.py --pdf FILE
python .ci/serves.py RMREADER INDEX
"""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

LINES = [
    "The lighthouse on the northern cliff was designed by Ingrid Halvorsen,",
    "and its lamp was first lit on 3 October 1871.",
]


def write_pdf(path: Path) -> None:
    """One page of plain text."""
    shown = " T* ".join(f"({line}) Tj" for line in LINES)
    stream = f"BT /F1 12 Tf 16 TL 72 720 Td {shown} ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        "/Resources << /Font << /F1 "
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
    ]
    content = b"%PDF-1.4\n"
    places = []
    for number, text in enumerate(objects, 1):
        places.append(len(content))
        content += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    end += (
        f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(content)}\n%%EOF\n"
    )
    path.write_bytes(content + end.encode())


def ask(url: str, path: str, tree: dict[str, str]) -> str:
    """Post a question and return the answer's body."""
    request = urllib.request.Request(
        f"{url}{path}", json.dumps(tree).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.read().decode()


def try_server(rmreader: str, index: str) -> None:
    """Ask a passage, ask the index, look at the page, and stop it."""
    command = [rmreader, "serve", "--port", "0", "--index", index]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        url = next(json.loads(line)["url"] for line in server.stderr if '"serving"' in line)
        question = {"question": "Who designed the lighthouse?"}
        passage = {"passage": " ".join(LINES)}
        assert "Ingrid Halvorsen" in ask(url, "/v1/answer", question | passage)
        assert "Ingrid Halvorsen" in ask(url, "/v1/ask", question)
        for page in ("/", "/docs", "/health"):
            assert urllib.request.urlopen(url + page, timeout=60).status == 200, page
    finally:
        server.terminate()
        status = server.wait(30)
    assert status == 0, status


if __name__ == "__main__":
    if sys.argv[1] == "--pdf":
        write_pdf(Path(sys.argv[2]))
    else:
        try_server(*sys.argv[1:])
