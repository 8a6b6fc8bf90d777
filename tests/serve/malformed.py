"""Requests that are wrong by construction, from a fixed random sequence: in their HTTP, their JSON, their tensors.

Run by hand with a number, it asks a server for that many: malformed.py PORT 10000"""
import json
import random
import socket
import string
import sys

import numpy as np

GOOD = json.dumps({"id": "x", "inputs": [{"name": "data", "shape": [1, 8], "datatype": "FP32", "data": [0.5, -1, 2e3, 4, 5, 6, 7, 8.25]}],
                   "outputs": []}).encode()
PATH = b"/v2/models/mlp/infer"
BINARY_HEAD = json.dumps({"inputs": [{"name": "data", "shape": [1, 8], "datatype": "FP32", "parameters": {"binary_data_size": 32}}]}).encode()


def post(body, headers=(), path=PATH, length=None):
    lines = [b"POST " + path + b" HTTP/1.1", b"Host: a", b"Content-Length: %d" % (len(body) if length is None else length), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def is_json(text):
    try:
        json.loads(text, parse_constant=lambda name: 1 / 0)  # NaN and Infinity are no JSON
        return True
    except (ValueError, ZeroDivisionError, RecursionError):
        return False


def noise(rng, most):
    return bytes(rng.randrange(256) for _ in range(rng.randrange(1, most)))


def broken_json(rng):
    while True:
        text = bytearray(GOOD)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text))
            kind = rng.randrange(4)
            if kind == 0:
                del text[at:at + rng.randrange(1, 20)]
            elif kind == 1:
                text[at] = rng.randrange(256)
            elif kind == 2:
                text[at:at] = rng.choice([b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\x00", b"nul", b"1e", b"--", b"\xff", b"[" * 200])
            else:
                text = text[:at]
            if not text:
                break
        if not is_json(bytes(text)):
            return post(bytes(text))


def wrong_input(rng):
    request = json.loads(GOOD)
    one = request["inputs"][0]
    key = rng.choice(["name", "shape", "datatype", "data"])
    values = {"name": ["", "x", 3, None, [], "data\x00"], "datatype": ["FP31", "", None, 7, [], "BYTES", "UINT16", "fp32"],
              "shape": [[], [8], [1, 7], [2, 8], [-1, 8], [1, 8, 1, 1, 2], [2**62, 8], [1.5, 8], ["1", "8"], None, 8, {}, [1] * 99, [2**31, 2**31, 2**31]],
              "data": [[], [1] * 7, [1] * 9, ["a"] * 8, None, "text", {}, [[1] * 9], [True] * 8, [None] * 8]}[key]
    if rng.randrange(4) == 0:
        del one[key]
    else:
        one[key] = rng.choice(values)
    if rng.randrange(8) == 0:
        request["inputs"] = rng.choice([[], {}, None, 5, [one, one], [[]]])
    return post(json.dumps(request).encode())


def wrong_binary(rng):
    data = np.zeros(8, np.float32).tobytes()
    kind = rng.randrange(5)
    if kind == 0:
        return post(BINARY_HEAD + data[:rng.randrange(32)], [b"Inference-Header-Content-Length: %d" % len(BINARY_HEAD)])
    if kind == 1:
        return post(BINARY_HEAD + data + noise(rng, 50), [b"Inference-Header-Content-Length: %d" % len(BINARY_HEAD)])
    if kind == 2:
        wrong = rng.choice([0, len(BINARY_HEAD) - 1 - rng.randrange(100), len(BINARY_HEAD) + rng.randrange(1, 20), 10**9, 10**30])
        return post(BINARY_HEAD + b"x" + data, [b"Inference-Header-Content-Length: %d" % wrong])
    if kind == 3:
        return post(BINARY_HEAD + data, [b"Inference-Header-Content-Length: " + rng.choice([b"-5", b"abc", b"0x10", b"1 2", b"1.5"])])
    size = rng.choice([-1, 0, 31, 33, 2**40, 2**63])
    head = BINARY_HEAD.replace(b'_size": 32', b'_size": %d' % size)
    return post(head + data, [b"Inference-Header-Content-Length: %d" % len(head)])


def wrong_address(rng):
    word = "".join(rng.choice(string.ascii_letters) for _ in range(rng.randrange(1, 30))).encode()
    path = rng.choice([b"/" + word, b"/v2/" + word, b"/v2/models/" + word, b"/v2/models/mlp/" + word, b"/v2/models/mlp/versions/" + word, b"/v2/models/mlp/infer/" + word,
                       b"/v2/models/%" + word[:1] + b"g/infer", b"/v2/repository/" + word, b"/v2/repository/models/" + word + b"/load", b"/v2/models//infer", b"//", b"/v2/../etc/passwd"])
    return post(GOOD, path=path)


def wrong_http(rng):
    word = noise(rng, 40).replace(b"\r", b"").replace(b"\n", b"")
    kind = rng.randrange(14)
    good_head = b"POST " + PATH + b" HTTP/1.1\r\nHost: a\r\n"
    if kind == 0:
        return noise(rng, 3000)
    if kind == 1:
        return word + b"\r\n\r\n"
    if kind == 2:
        return b"GET " + rng.choice([b"*", b"x", b"http:///v2", b"/\x7f", b"/ /", b"", b"/\xc3\xa9"]) + b" HTTP/1.1\r\nHost: a\r\n\r\n"
    if kind == 3:
        return b"GET /v2 " + rng.choice([b"HTTP/9.9", b"HTTP/0.9", b"http/1.1", b"HTTP/1.10", b"FTP/1.1", b""]) + b"\r\nHost: a\r\n\r\n"
    if kind == 4:
        return good_head + rng.choice([b"NoColon", b" Folded: x", b"Na me: x", b": x", b"Na\x00me: x", b"Name: \x00", b"Name: a\rb", b"(x): y"]) + b"\r\n\r\n"
    if kind == 5:
        return good_head + b"Content-Length: " + rng.choice([b"", b"-1", b"+5", b"1,2", b"0x5", b"99999999999999999999999", b"5 5", b"five"]) + b"\r\n\r\nhello"
    if kind == 6:
        return good_head + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"
    if kind == 7:
        return good_head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    if kind == 8:
        chunks = rng.choice([b"zz\r\n", b"-1\r\n\r\n", b"5\r\nhel", b"5\r\nhello!\r\n0\r\n\r\n", b"5\nhello\r\n", b"ffffffffffffffffff\r\nx", b"\r\n\r\n", b"5;" + b"x" * 300 + b"\r\n"])
        return good_head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    if kind == 9:
        return post(GOOD, length=len(GOOD) + rng.randrange(1, 1000))  # the client closes before the end
    if kind == 10:
        return good_head + b"X: " + b"y" * rng.randrange(17000, 40000) + b"\r\n\r\n"
    if kind == 11:
        return good_head + b"".join(b"X%d: y\r\n" % i for i in range(150)) + b"\r\n"
    if kind == 12:
        return good_head + b"Content-Length: %d\r\n\r\n" % rng.randrange(2**40, 2**60)
    return rng.choice([b"DELETE", b"PUT", b"PATCH", b"BREW", b"GET", b"OPTIONS"]) + b" " + PATH + b" HTTP/1.1\r\nHost: a\r\n\r\n"


KINDS = [broken_json, wrong_input, wrong_binary, wrong_address, wrong_http]


def requests(count, seed=0):
    rng = random.Random(seed)
    for i in range(count):
        yield KINDS[i % len(KINDS)](rng)


def status_of(port, request):
    """Sends the bytes, closes that side, and returns the status of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        try:
            s.sendall(request)
            s.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has answered and closed already
        answer = b""
        while part := s.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 "), (request[:300], answer)
    return int(answer[9:12])


def ask_all(port, count, seed=0):
    """How often each status came; a request that was not refused is an error. 501 and 505 are HTTP's words for what a server does not speak."""
    found = {}
    for request in requests(count, seed):
        status = status_of(port, request)
        assert 400 <= status < 500 or status in (501, 505), (status, request[:1000])
        found[status] = found.get(status, 0) + 1
    return found


if __name__ == "__main__":
    print(ask_all(int(sys.argv[1]), int(sys.argv[2])))
