"""The few questions that only Windows' own libraries answer. Each is guarded by its caller.

Structures and numbers are those of the Windows SDK (winbase.h, winuser.h, iphlpapi.h,
d3dkmthk.h) for 64 bits.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Protocol

from twinrig.hosts.windows.adapters import Adapter


@dataclass(frozen=True)
class Power:
    """None = Windows does not know."""

    on_line: bool | None
    battery: bool | None
    percent: int | None


@dataclass(frozen=True)
class Display:
    """One output that shows a desktop, and the card it hangs on, by name."""

    name: str
    primary: bool
    card: str


@dataclass(frozen=True)
class Listener:
    """One TCP listener of Windows. ``program`` is "" where it may not be asked."""

    address: str
    port: int
    pid: int
    program: str


class SystemCalls(Protocol):
    """Each may raise OSError; None = this Windows does not tell."""

    def build(self) -> int: ...

    def firmware_virtualisation(self) -> bool | None: ...

    def memory_bytes(self) -> int: ...

    def power(self) -> Power: ...

    def file_version(self, path: str) -> str | None: ...

    def displays(self) -> tuple[Display, ...]: ...

    def adapters(self) -> tuple[Adapter, ...]: ...

    def listeners(self, port: int) -> tuple[Listener, ...]: ...


if sys.platform == "win32":
    import ctypes
    import socket
    import struct
    from ctypes import wintypes
    from pathlib import PureWindowsPath

    from twinrig.hosts.windows.adapters import luid_text

    _PF_VIRT_FIRMWARE_ENABLED = 21
    _DESKTOP, _PRIMARY = 0x1, 0x4
    _TABLE_OWNER_PID_LISTENER = 3
    _AF_INET = 2
    _TOO_SMALL = 122
    _QUERY_LIMITED = 0x1000
    _ADAPTER_ADDRESS = 6
    _UNKNOWN = 255

    class _MemoryStatus(ctypes.Structure):
        _fields_ = (
            ("length", wintypes.DWORD),
            ("load", wintypes.DWORD),
            *((f"size{index}", ctypes.c_uint64) for index in range(7)),
        )

    class _PowerStatus(ctypes.Structure):
        _fields_ = (
            *(("line", ctypes.c_ubyte), ("flag", ctypes.c_ubyte), ("percent", ctypes.c_ubyte)),
            *(("saver", ctypes.c_ubyte), ("life", wintypes.DWORD), ("full", wintypes.DWORD)),
        )

    class _DisplayDevice(ctypes.Structure):
        _fields_ = (
            ("size", wintypes.DWORD),
            ("name", wintypes.WCHAR * 32),
            ("text", wintypes.WCHAR * 128),
            ("flags", wintypes.DWORD),
            ("id", wintypes.WCHAR * 128),
            ("key", wintypes.WCHAR * 128),
        )

    class _AdapterInfo(ctypes.Structure):
        """D3DKMT_ADAPTERINFO."""

        _fields_ = (
            *(("handle", ctypes.c_uint32), ("low", ctypes.c_uint32), ("high", ctypes.c_int32)),
            *(("sources", ctypes.c_uint32), ("precise", ctypes.c_int32)),
        )

    class _EnumAdapters(ctypes.Structure):
        """D3DKMT_ENUMADAPTERS2."""

        _fields_ = (("count", ctypes.c_uint32), ("adapters", ctypes.POINTER(_AdapterInfo)))

    class _QueryAdapter(ctypes.Structure):
        """D3DKMT_QUERYADAPTERINFO."""

        _fields_ = (
            *(("handle", ctypes.c_uint32), ("type", ctypes.c_int)),
            *(("data", ctypes.c_void_p), ("size", ctypes.c_uint32)),
        )

    class Win32Calls:
        """``SystemCalls`` of this computer."""

        def build(self) -> int:
            """As the kernel says; compatibility settings of a program do not change it."""
            return sys.getwindowsversion().platform_version[2]

        def firmware_virtualisation(self) -> bool | None:
            """Says no as well where a hypervisor runs already and hides it."""
            kernel = ctypes.WinDLL("kernel32")
            return bool(kernel.IsProcessorFeaturePresent(_PF_VIRT_FIRMWARE_ENABLED))

        def memory_bytes(self) -> int:
            """RAM that Windows can use."""
            status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
            kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            if not kernel.GlobalMemoryStatusEx(ctypes.byref(status)):
                raise ctypes.WinError(ctypes.get_last_error())
            return int(status.size0)

        def power(self) -> Power:
            """Mains, battery and its charge."""
            status = _PowerStatus()
            kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            if not kernel.GetSystemPowerStatus(ctypes.byref(status)):
                raise ctypes.WinError(ctypes.get_last_error())
            return Power(
                None if status.line == _UNKNOWN else status.line == 1,
                None if status.flag == _UNKNOWN else not status.flag & 0x80,
                None if status.percent == _UNKNOWN else int(status.percent),
            )

        def file_version(self, path: str) -> str | None:
            """Four numbers with dots; None for a file without a version."""
            library = ctypes.WinDLL("version")
            size = library.GetFileVersionInfoSizeW(ctypes.c_wchar_p(path), None)
            if not size:
                return None
            block = ctypes.create_string_buffer(size)
            if not library.GetFileVersionInfoW(ctypes.c_wchar_p(path), 0, size, block):
                return None
            found, length = ctypes.c_void_p(), wintypes.UINT()
            root = ctypes.c_wchar_p("\\")
            args = (block, root, ctypes.byref(found), ctypes.byref(length))
            if not library.VerQueryValueW(*args) or length.value < 16 or not found.value:
                return None
            # VS_FIXEDFILEINFO: signature, structure version, then the file's version.
            _, _, high, low = struct.unpack("<IIII", ctypes.string_at(found.value, 16))
            return f"{high >> 16}.{high & 0xFFFF}.{low >> 16}.{low & 0xFFFF}"

        def displays(self) -> tuple[Display, ...]:
            """Outputs that belong to the desktop."""
            user = ctypes.WinDLL("user32")
            found, index = [], 0
            device = _DisplayDevice(size=ctypes.sizeof(_DisplayDevice))
            while user.EnumDisplayDevicesW(None, index, ctypes.byref(device), 0):
                if device.flags & _DESKTOP:
                    primary = bool(device.flags & _PRIMARY)
                    found.append(Display(device.name, primary, device.text))
                index += 1
            return tuple(found)

        def adapters(self) -> tuple[Adapter, ...]:
            """Graphics adapters with their place on the PCI bus; those without are left out."""
            gdi = ctypes.WinDLL("gdi32")
            request = _EnumAdapters()
            if gdi.D3DKMTEnumAdapters2(ctypes.byref(request)):
                raise OSError("D3DKMTEnumAdapters2")
            infos = (_AdapterInfo * max(1, request.count))()
            request.adapters = ctypes.cast(infos, ctypes.POINTER(_AdapterInfo))
            if gdi.D3DKMTEnumAdapters2(ctypes.byref(request)):
                raise OSError("D3DKMTEnumAdapters2")
            found = [_adapter(gdi, infos[index]) for index in range(request.count)]
            return tuple(adapter for adapter in found if adapter is not None)

        def listeners(self, port: int) -> tuple[Listener, ...]:
            """IPv4 listeners on a port, with the programs that own them."""
            rows = _tcp_rows()
            return tuple(
                Listener(socket.inet_ntoa(address), port, pid, _program_of(pid))
                for address, found, pid in rows
                if found == port
            )

    def _adapter(gdi: ctypes.WinDLL, info: _AdapterInfo) -> Adapter | None:
        place = (ctypes.c_uint32 * 3)()
        query = _QueryAdapter(
            info.handle, _ADAPTER_ADDRESS, ctypes.cast(place, ctypes.c_void_p), ctypes.sizeof(place)
        )
        handle = ctypes.c_uint32(info.handle)
        try:
            if gdi.D3DKMTQueryAdapterInfo(ctypes.byref(query)):
                return None
        finally:
            gdi.D3DKMTCloseAdapter(ctypes.byref(handle))
        return Adapter(luid_text(info.high, info.low), place[0], place[1], place[2])

    def _tcp_rows() -> list[tuple[bytes, int, int]]:
        """Address, port and process of every IPv4 listener."""
        table = ctypes.WinDLL("iphlpapi").GetExtendedTcpTable
        size = wintypes.DWORD(0)
        buffer = ctypes.create_string_buffer(4)
        while True:
            code = table(buffer, ctypes.byref(size), False, _AF_INET, _TABLE_OWNER_PID_LISTENER, 0)
            if code != _TOO_SMALL:
                break
            buffer = ctypes.create_string_buffer(size.value)
        if code:
            raise OSError(code, "GetExtendedTcpTable")
        (count,) = struct.unpack_from("<I", buffer.raw, 0)
        rows = []
        for index in range(count):
            # MIB_TCPROW_OWNER_PID: state, address, port in network order, peer, its port, process
            _, address, raw_port, _, _, pid = struct.unpack_from(
                "<I4sIIII", buffer.raw, 4 + 24 * index
            )
            rows.append((address, socket.ntohs(raw_port & 0xFFFF), pid))
        return rows

    def _program_of(pid: int) -> str:
        kernel = ctypes.WinDLL("kernel32")
        kernel.OpenProcess.restype = wintypes.HANDLE
        kernel.QueryFullProcessImageNameW.argtypes = (
            *(wintypes.HANDLE, wintypes.DWORD, wintypes.LPWSTR, ctypes.c_void_p),
        )
        kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
        handle = kernel.OpenProcess(_QUERY_LIMITED, False, pid)
        if not handle:
            return ""
        try:
            size = wintypes.DWORD(1024)
            name = ctypes.create_unicode_buffer(size.value)
            done = kernel.QueryFullProcessImageNameW(handle, 0, name, ctypes.byref(size))
            return PureWindowsPath(name.value).name if done else ""
        finally:
            kernel.CloseHandle(handle)
