"""Search, look at and download models on the Linux side; runs on any Python 3.8 or newer.

Standard library only. Started as ``python -I - COMMAND`` with a request (JSON) in a file whose
name is the first argument; the file is removed at once, because it may hold a token. Prints one
JSON object a line: {"event": ...}. The last one is "done" or "failed".

A download goes into ``TARGET.partial`` and becomes ``TARGET`` when every file has the size and the
checksum that the hub told. What is there already is not downloaded again.
"""

import errno
import hashlib
import http.client
import json
import os
import re
import shutil
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

CHUNK = 1024 * 1024
TRIES = 6
TELL_S = 0.5
ABOUT = ".download.json"
FULL = (errno.ENOSPC, errno.EDQUOT)
MARGIN = 1024**3
WINDOWS_DRIVES = ("9p", "drvfs", "virtiofs", "v9fs")


class Failed(Exception):
    """``kind`` is what the caller has words for; ``facts`` are shown with them."""

    def __init__(self, kind, **facts):
        Exception.__init__(self, kind)
        self.kind = kind
        self.facts = facts


class NoCredentialsElsewhere(urllib.request.HTTPRedirectHandler):
    """Files lie on other hosts, which must not get the token."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        new = urllib.request.HTTPRedirectHandler.redirect_request(
            self, req, fp, code, msg, headers, newurl
        )
        if new is not None and urllib.parse.urlsplit(newurl).netloc != req.host:
            new.headers.pop("Authorization", None)
            new.unredirected_hdrs.pop("Authorization", None)
        return new


OPENER = urllib.request.build_opener(NoCredentialsElsewhere)


def tell(event, **facts):
    sys.stdout.write(json.dumps(dict(facts, event=event)) + "\n")
    sys.stdout.flush()


class Hub:
    def __init__(self, request):
        self.base = request["endpoint"].rstrip("/")
        self.token = request.get("token") or ""
        self.repo = request.get("repo") or ""
        self.timeout = float(request.get("timeout_s", 30))
        self.pause = float(request.get("pause_s", 2))

    def open(self, path, start=0):
        headers = {"User-Agent": "twinrig"}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        if start:
            headers["Range"] = "bytes=%d-" % start
        return OPENER.open(
            urllib.request.Request(self.base + path, headers=headers), timeout=self.timeout
        )

    def patient(self, work, what):
        """Run ``work``; wait as a busy hub asks, and try again when a connection breaks."""
        for left in reversed(range(TRIES)):
            try:
                return work()
            except urllib.error.HTTPError as error:
                wait, reason = self.judge(error, what), "HTTP %d" % error.code
            except (OSError, EOFError, ValueError, http.client.HTTPException) as error:
                if getattr(error, "errno", None) in FULL:
                    raise Failed("disk-full", path=what)
                wait, reason = self.pause, str(error) or error.__class__.__name__
            if left:
                tell("waiting", seconds=wait, left=left, reason=reason)
                time.sleep(wait)
        raise Failed("connection", what=what, reason=reason)

    def judge(self, error, what):
        """Seconds to wait, or Failed."""
        code = error.code
        if code == 429 or code >= 500:
            return retry_after(error.headers.get("Retry-After"), self.pause)
        if code == 401 and not self.token:
            raise Failed("needs-token", what=self.repo or what)
        if code == 401:
            raise Failed("bad-token", what=self.repo or what)
        if code == 403:
            raise Failed("not-allowed", what=self.repo or what)
        if code == 404:
            raise Failed("not-found", what=self.repo or what)
        raise Failed("refused", what=what, code=code)

    def get(self, path, what):
        def work():
            with self.open(path) as answer:
                return json.loads(answer.read(64 * CHUNK))

        return self.patient(work, what)


def retry_after(text, otherwise):
    """Seconds; a date or nonsense counts as ``otherwise``, and nobody waits for more than 5 min."""
    try:
        return min(300.0, max(0.0, float(text)))
    except (TypeError, ValueError):
        return otherwise


def quoted(repo):
    return "/".join(urllib.parse.quote(part, safe="") for part in repo.split("/"))


def search(hub, request):
    fields = [("search", request.get("text", "")), ("limit", str(request.get("limit", 30)))]
    fields += [("sort", "downloads"), ("direction", "-1")]
    fields += [("filter", tag) for tag in request.get("filters", ())]
    fields += [("expand[]", name) for name in ("downloads", "gated", "safetensors", "tags")]
    found = hub.get("/api/models?" + urllib.parse.urlencode(fields), "search")
    if not isinstance(found, list):
        raise Failed("garbled", what="search")
    rows = [row for row in found if isinstance(row, dict) and isinstance(row.get("id"), str)]
    tell("found", models=[brief(row) for row in rows])


def brief(row):
    return {
        "id": row["id"],
        "downloads": row.get("downloads") or 0,
        "gated": bool(row.get("gated")),
        "tags": [t for t in row.get("tags") or () if isinstance(t, str)][:64],
    }


def listing(hub, repo, revision):
    """Files of a revision with size and checksum, and the commit."""
    path = "/api/models/%s/revision/%s?blobs=true" % (
        quoted(repo),
        urllib.parse.quote(revision, safe=""),
    )
    info = hub.get(path, repo)
    commit = info.get("sha") if isinstance(info, dict) else None
    if not isinstance(commit, str) or not re.match(r"[0-9a-f]{8,64}$", commit):
        raise Failed("garbled", what=repo)
    files = []
    for row in info.get("siblings") or ():
        name, size = row.get("rfilename"), row.get("size")
        lfs = row.get("lfs") or {}
        if not isinstance(name, str) or not isinstance(size, int):
            raise Failed("garbled", what=repo)
        parts = name.split("/")
        if name.startswith("/") or ".." in parts or "" in parts or "\\" in name:
            raise Failed("garbled", what=name)
        blob = row.get("blobId")
        files.append({"name": name, "size": size, "sha256": lfs.get("sha256"), "blob": blob})
    return commit, files


def wanted(files, skip):
    """What an engine needs: safetensors where there are any, else the older formats."""
    kept = [f for f in files if not any(re.search(p, f["name"]) for p in skip)]
    plain = [f for f in kept if f["name"].endswith(".safetensors")]
    if plain:
        kept = [f for f in kept if not f["name"].endswith((".bin", ".pt", ".pth"))]
        whole = [f for f in plain if not f["name"].startswith("consolidated")]
        if whole:
            kept = [f for f in kept if not f["name"].startswith("consolidated")]
    return kept


def is_weight(name):
    return name.endswith((".safetensors", ".bin", ".pt", ".pth"))


def branches(hub, repo):
    try:
        refs = hub.get("/api/models/%s/refs" % quoted(repo), repo)
    except Failed:
        return []
    rows = refs.get("branches") if isinstance(refs, dict) else None
    return sorted(str(row.get("name")) for row in rows or () if isinstance(row, dict))


def look(hub, request):
    """Size and config.json of each repository; one that cannot be looked at is told as such."""
    for wish in request["repos"]:
        repo, revision = wish["repo"], wish.get("revision") or "main"
        hub.repo = repo
        try:
            commit, files = listing(hub, repo, revision)
            kept = wanted(files, request.get("skip", ()))
            weights = [f for f in kept if is_weight(f["name"])]
            config = None
            if any(f["name"] == "config.json" and f["size"] < 8 * CHUNK for f in kept):
                place = "/%s/resolve/%s/config.json" % (quoted(repo), commit)
                config = hub.get(place, repo)
            tell(
                "look",
                repo=repo,
                revision=revision,
                commit=commit,
                size=sum(f["size"] for f in kept),
                weights=sum(f["size"] for f in weights),
                config=config if isinstance(config, dict) else None,
                branches=[] if weights else branches(hub, repo),
            )
        except Failed as failure:
            tell("unseen", repo=repo, revision=revision, kind=failure.kind)


def check_place(target, mounts):
    """Refuse Windows drives: loading from them is 10 to 50 times slower."""
    place = os.path.realpath(target)
    best, kind = "", ""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as table:
            for line in table:
                words = line.split()
                if len(words) < 3:
                    continue
                point = words[1].replace("\\040", " ")
                inside = place == point or place.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(best):
                    best, kind = point, words[2]
    except OSError:
        pass
    if kind in WINDOWS_DRIVES or re.match(r"/mnt/[a-z](/|$)", place):
        raise Failed("windows-drive", path=place)


def nearest(path):
    while not os.path.isdir(path):
        path = os.path.dirname(path) or "/"
    return path


def digest_of(path, file):
    """Checksum of a file on disk, of the kind that the hub tells."""
    if file["sha256"]:
        digest = hashlib.sha256()
    else:
        digest = hashlib.sha1(("blob %d\0" % file["size"]).encode())
    with open(path, "rb") as data:
        for piece in iter(lambda: data.read(CHUNK), b""):
            digest.update(piece)
    return digest.hexdigest()


def is_whole(path, file):
    """Whether the file is exactly what the hub told; without a told checksum its size decides."""
    try:
        if os.path.getsize(path) != file["size"]:
            return False
    except OSError:
        return False
    told = file["sha256"] or file["blob"]
    return not told or digest_of(path, file) == told


class Progress:
    """Bytes of all files together, told twice a second."""

    def __init__(self, total):
        self.total = total
        self.done = 0
        self.told = 0.0

    def add(self, count, name, force=False):
        self.done += count
        now = time.monotonic()
        if force or now - self.told >= TELL_S:
            self.told = now
            tell("progress", done=self.done, total=self.total, file=name)


def transfer(hub, repo, commit, file, path, progress):
    """One file, from where an earlier try ended."""
    part = path + ".part"
    counted = [0]

    def work():
        start = os.path.getsize(part) if os.path.exists(part) else 0
        if start > file["size"]:
            os.unlink(part)
            start = 0
        progress.done -= counted[0]
        counted[0] = start
        progress.add(start, file["name"])
        if start < file["size"] or not file["size"]:
            place = "/%s/resolve/%s/%s" % (quoted(repo), commit, quoted(file["name"]))
            with hub.open(place, start) as answer:
                if start and answer.status != 206:  # it began anew
                    progress.done -= counted[0]
                    counted[0] = 0
                receive(answer, part, bool(counted[0]), file, counted, progress)
        if os.path.getsize(part) != file["size"]:
            raise EOFError("the connection was cut off")

    hub.patient(work, file["name"])
    return counted[0]


def receive(answer, part, append, file, counted, progress):
    with open(part, "ab" if append else "wb") as out:
        for piece in iter(lambda: answer.read(CHUNK), b""):
            out.write(piece)
            counted[0] += len(piece)
            progress.add(len(piece), file["name"])
            if counted[0] > file["size"]:
                raise Failed("checksum", what=file["name"])
        out.flush()
        os.fsync(out.fileno())


def by_library(hub, repo, commit, file, folder):
    """Let the Linux side's own huggingface_hub fetch a large file; False = it cannot."""
    try:
        from huggingface_hub import hf_hub_download
    except Exception:  # a broken package is as good as none
        return False
    try:
        hf_hub_download(
            repo,
            file["name"],
            revision=commit,
            local_dir=folder,
            token=hub.token or False,
            endpoint=hub.base,
        )
        return True
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise Failed("disk-full", path=folder)
        tell("library", reason=error.__class__.__name__)
        return False


def fetch(hub, repo, commit, file, folder, progress, use_library):
    """One file into the partial folder, proven by its checksum; one wrong copy is tried again."""
    path = os.path.join(folder, *file["name"].split("/"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if is_whole(path, file):
        progress.add(file["size"], file["name"])
        return
    by_hand = not use_library or file["size"] <= 16 * CHUNK
    if not by_hand and by_library(hub, repo, commit, file, folder) and is_whole(path, file):
        progress.add(file["size"], file["name"], force=True)
        return
    for left in (1, 0):
        counted = transfer(hub, repo, commit, file, path, progress)
        os.replace(path + ".part", path)
        if is_whole(path, file):
            return
        progress.done -= counted
        os.unlink(path)
        if not left:
            raise Failed("checksum", what=file["name"])


def download(hub, request):
    repo, revision = request["repo"], request.get("revision") or "main"
    target = request["target"]
    partial = target + ".partial"
    check_place(target, request.get("mounts", "/proc/self/mounts"))
    if os.path.lexists(target):
        raise Failed("exists", path=target)
    commit, files = listing(hub, repo, revision)
    kept = wanted(files, request.get("skip", ()))
    if not any(is_weight(f["name"]) for f in kept):
        raise Failed("no-weights", what=repo, branches=branches(hub, repo))
    total = sum(f["size"] for f in kept)
    drop_other(partial, repo, commit)
    here = sum(os.path.getsize(os.path.join(at, n)) for at, _d, ns in os.walk(partial) for n in ns)
    free = shutil.disk_usage(nearest(partial)).free
    if free + here < total + min(MARGIN, total // 20):
        raise Failed("no-room", path=target, needed=total - here, free=free)
    os.makedirs(partial, exist_ok=True)
    with open(os.path.join(partial, ABOUT), "w") as about:
        json.dump({"repo": repo, "revision": revision, "commit": commit, "size": total}, about)
    progress = Progress(total)
    tell("begun", repo=repo, commit=commit, total=total, files=len(kept), here=here)
    for file in sorted(kept, key=lambda f: (f["size"] > CHUNK, f["name"])):
        fetch(hub, repo, commit, file, partial, progress, request.get("library", True))
    progress.add(0, "", force=True)
    finish(partial, target, kept)
    tell("saved", path=target, size=total, commit=commit)


def drop_other(partial, repo, commit):
    """What belongs to another repository or commit cannot be gone on with."""
    try:
        with open(os.path.join(partial, ABOUT)) as about:
            known = json.load(about)
        if known.get("repo") == repo and known.get("commit") == commit:
            return
    except (OSError, ValueError):
        pass
    shutil.rmtree(partial, ignore_errors=True)


def finish(partial, target, kept):
    """Only what was asked for, then the real name."""
    shutil.rmtree(os.path.join(partial, ".cache"), ignore_errors=True)
    for at, _folders, names in os.walk(partial):
        for name in names:
            if name.endswith(".part"):
                os.unlink(os.path.join(at, name))
    os.unlink(os.path.join(partial, ABOUT))
    for file in kept:
        if os.path.getsize(os.path.join(partial, *file["name"].split("/"))) != file["size"]:
            raise Failed("checksum", what=file["name"])
    os.sync()
    os.rename(partial, target)


COMMANDS = {"search": search, "look": look, "download": download}


def main(argv):
    with open(argv[1], encoding="utf-8") as file:
        request = json.load(file)
    os.unlink(argv[1])
    try:
        COMMANDS[request["command"]](Hub(request), request)
    except Failed as failure:
        tell("failed", kind=failure.kind, **failure.facts)
        return 1
    except OSError as error:
        full = error.errno in FULL
        tell(
            "failed",
            kind="disk-full" if full else "system",
            path=error.filename or "",
            reason=error.strerror or str(error),
        )
        return 1
    tell("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
