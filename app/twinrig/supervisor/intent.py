"""What the user wants of the server, as it changes: ``desired.json`` and signals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from twinrig.domain.errors import DamagedFileError, TwinrigError
from twinrig.domain.supervision import Desired, DesiredState
from twinrig.files import FileTooLargeError, read_small
from twinrig.messages import message
from twinrig.supervisor.own_log import OwnLog


class Intent:
    """Last readable wish. A missing file means: run (somebody started this supervisor).

    ``problem`` is set while the file cannot be read and no wish was ever read: then nobody
    knows what is wanted.
    """

    def __init__(self, path: Path, log: OwnLog) -> None:
        self._path = path
        self._log = log
        self._signature: tuple[int, int, int] | None = None
        self._changed = asyncio.Event()
        self._wish = DesiredState(Desired.RUNNING, "", "", 0.0)
        self._known = False
        self.problem: TwinrigError | None = None
        self.quitting = False
        self.carried_id = ""

    @property
    def request_id(self) -> str:
        """Id of the request in force."""
        return self._wish.request_id

    def carry(self) -> str:
        """The request in force is being carried out from now on; returns its id."""
        self.carried_id = self._wish.request_id
        return self.carried_id

    @property
    def stop_wanted(self) -> bool:
        """The server must not run: asked for, or this supervisor was told to end."""
        return self.quitting or self._wish.desired is Desired.STOPPED

    @property
    def sleep_wanted(self) -> bool:
        """The server must live, with the cards free."""
        return not self.quitting and self._wish.desired is Desired.SLEEPING

    def quit(self) -> None:
        """End the server and this supervisor; the wish in the file stays as it is."""
        self._log.say("asked to end by a signal")
        self.quitting = True
        self._changed.set()

    def read(self) -> None:
        """Look at the file; a wish that cannot be read leaves the last one in force."""
        try:
            found = self._path.stat()
            signature = (found.st_mtime_ns, found.st_size, found.st_ino)
            if signature == self._signature:
                return
            self._signature = signature
            wish = DesiredState.from_json(read_small(self._path), str(self._path))
        except FileNotFoundError:
            return
        except DamagedFileError as error:
            self._complain(error)
        except (FileTooLargeError, OSError) as error:
            text = message(
                "{path} cannot be read: {reason}.", path=str(self._path), reason=str(error)
            )
            self._complain(DamagedFileError(text, message("Move the file away to start afresh.")))
        else:
            self._take(wish)

    async def until(self, condition: Callable[[Intent], bool]) -> None:
        """Wait until the condition holds."""
        while not condition(self):
            self._changed.clear()
            await self._changed.wait()

    async def stopped(self) -> None:
        """Wait until the server must not run."""
        await self.until(lambda intent: intent.stop_wanted)

    def _take(self, wish: DesiredState) -> None:
        self.problem, self._known = None, True
        if wish != self._wish:
            self._log.say(f"{wish.requested_by} wants it {wish.desired} ({wish.request_id})")
            self._wish = wish
            self._changed.set()

    def _complain(self, error: TwinrigError) -> None:
        self._log.say(error)
        if not self._known:
            self.problem = error
