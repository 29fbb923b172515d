/* A Windows program that stands for wsl.exe or schtasks.exe under Wine: whatever its file is
 * called. It lets bridge.py, a native program of this Linux machine, do the work, and passes on
 * command line, folder, standard streams and exit code.
 *
 *   x86_64-w64-mingw32-gcc -Os -s -municode -Wall -Wextra -o wsl.exe stub.c -lws2_32
 *
 * TWINRIG_DOUBLE_PYTHON: native interpreter, else /usr/bin/python3
 * TWINRIG_DOUBLE_BRIDGE: full native path of bridge.py, always needed
 *
 * Wine starts native programs by \\?\unix paths, but gives neither their exit code nor a third
 * stream; so the two meet on a loopback port that the system picks. Every message is a letter,
 * four bytes of length, and the bytes.
 */
#define _WIN32_WINNT 0x0A00
#include <winsock2.h>
#include <windows.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEETING_SECONDS 30
enum { NO_SOCKET = 251, NO_BRIDGE = 252, NOBODY_CAME = 253, BRIDGE_LOST = 254 };

static SOCKET bridge = INVALID_SOCKET;
static CRITICAL_SECTION sending;

static void leave(const char *why, UINT code)
{
    fprintf(stderr, "double: %s (error %lu)\n", why, GetLastError());
    ExitProcess(code);
}

static BOOL send_all(const char *bytes, int left)
{
    while (left > 0) {
        int sent = send(bridge, bytes, left, 0);
        if (sent <= 0)
            return FALSE;
        bytes += sent;
        left -= sent;
    }
    return TRUE;
}

static BOOL receive_all(char *bytes, int left)
{
    while (left > 0) {
        int got = recv(bridge, bytes, left, 0);
        if (got <= 0)
            return FALSE;
        bytes += got;
        left -= got;
    }
    return TRUE;
}

static BOOL tell(char kind, const void *bytes, UINT32 size)
{
    char head[5];
    BOOL sound;
    head[0] = kind;
    memcpy(head + 1, &size, sizeof size);
    EnterCriticalSection(&sending);
    sound = send_all(head, sizeof head) && send_all(bytes, (int)size);
    LeaveCriticalSection(&sending);
    return sound;
}

static void tell_text(char kind, const WCHAR *text)
{
    int size = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *bytes = malloc((size_t)size);
    if (bytes == NULL)
        leave("no memory", NO_BRIDGE);
    WideCharToMultiByte(CP_UTF8, 0, text, -1, bytes, size, NULL, NULL);
    if (!tell(kind, bytes, (UINT32)size - 1))
        leave("the bridge is gone", BRIDGE_LOST);
    free(bytes);
}

static DWORD WINAPI pass_input_on(void *unused)
{
    HANDLE input = GetStdHandle(STD_INPUT_HANDLE);
    static char bytes[16384];
    DWORD got;
    (void)unused;
    while (input != NULL && input != INVALID_HANDLE_VALUE
           && ReadFile(input, bytes, sizeof bytes, &got, NULL) && got > 0)
        if (!tell('I', bytes, got))
            return 1;
    tell('X', NULL, 0);
    return 0;
}

static SOCKET open_door(unsigned short *port)
{
    struct sockaddr_in place;
    int size = sizeof place;
    SOCKET door = socket(AF_INET, SOCK_STREAM, 0);
    memset(&place, 0, sizeof place);
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (door == INVALID_SOCKET || bind(door, (struct sockaddr *)&place, size) || listen(door, 1)
        || getsockname(door, (struct sockaddr *)&place, &size))
        leave("no loopback socket", NO_SOCKET);
    *port = ntohs(place.sin_port);
    return door;
}

static void start_bridge(unsigned short port)
{
    static WCHAR python[1024], script[4096], application[1100], line[6000];
    STARTUPINFOW how;
    PROCESS_INFORMATION what;
    if (!GetEnvironmentVariableW(L"TWINRIG_DOUBLE_PYTHON", python, 1024))
        lstrcpyW(python, L"/usr/bin/python3");
    if (!GetEnvironmentVariableW(L"TWINRIG_DOUBLE_BRIDGE", script, 4096))
        leave("TWINRIG_DOUBLE_BRIDGE is not set", NO_BRIDGE);
    wsprintfW(application, L"\\\\?\\unix%s", python);
    lstrcpyW(line, L"\"");
    lstrcatW(line, python);
    lstrcatW(line, L"\" -I -S \"");
    lstrcatW(line, script);
    wsprintfW(line + lstrlenW(line), L"\" %u", (unsigned)port);
    memset(&how, 0, sizeof how);
    how.cb = sizeof how;
    if (!CreateProcessW(application, line, NULL, NULL, FALSE, 0, NULL, NULL, &how, &what))
        leave("the native program cannot be started", NO_BRIDGE);
    CloseHandle(what.hThread);
    CloseHandle(what.hProcess);
}

static void meet(SOCKET door)
{
    struct timeval limit = { MEETING_SECONDS, 0 };
    fd_set waiting;
    FD_ZERO(&waiting);
    FD_SET(door, &waiting);
    if (select(0, &waiting, NULL, NULL, &limit) != 1)
        leave("the native program did not come", NOBODY_CAME);
    bridge = accept(door, NULL, NULL);
    closesocket(door);
}

static void write_out(DWORD stream, const char *bytes, DWORD size)
{
    DWORD done;
    while (size > 0) {
        if (!WriteFile(GetStdHandle(stream), bytes, size, &done, NULL))
            ExitProcess(1); /* the reader is gone */
        bytes += done;
        size -= done;
    }
}

int wmain(void)
{
    WSADATA version;
    unsigned short port;
    SOCKET door;
    static WCHAR place[4096];

    InitializeCriticalSection(&sending);
    if (WSAStartup(MAKEWORD(2, 2), &version))
        leave("no sockets", NO_SOCKET);
    door = open_door(&port);
    start_bridge(port);
    meet(door);

    GetModuleFileNameW(NULL, place, 4096);
    tell_text('P', place);
    tell_text('L', GetCommandLineW());
    tell('G', NULL, 0);
    CloseHandle(CreateThread(NULL, 0, pass_input_on, NULL, 0, NULL));

    for (;;) {
        static char bytes[65536];
        char head[5];
        UINT32 size;
        if (!receive_all(head, sizeof head))
            leave("the native program is gone", BRIDGE_LOST);
        memcpy(&size, head + 1, sizeof size);
        if (size > sizeof bytes || !receive_all(bytes, (int)size))
            leave("the native program talks nonsense", BRIDGE_LOST);
        if (head[0] == 'O')
            write_out(STD_OUTPUT_HANDLE, bytes, size);
        else if (head[0] == 'E')
            write_out(STD_ERROR_HANDLE, bytes, size);
        else if (head[0] == 'Q' && size == sizeof size) {
            memcpy(&size, bytes, sizeof size);
            ExitProcess(size);
        }
    }
}
