/* Test only, never shipped: wsl.exe and schtasks.exe for Wine. Wine can start a program of Linux,
 * but gives it neither its own standard streams nor an exit code. So this listens on a free port of
 * loopback, starts double_link.py beside the doubles, and passes everything through frames: one
 * letter, a length of four bytes (little-endian), data.
 *   sent      P program, A argument, L raw command line, G go, I input, X end of input
 *   received  O output, E errors, Q exit code (four bytes)
 * TWINRIG_DOUBLE_PYTHON and TWINRIG_DOUBLE_LINK name Linux' Python and double_link.py. */
#ifndef UNICODE
#define UNICODE
#endif
#define _WIN32_WINNT 0x0A00
#include <winsock2.h>
#include <ws2tcpip.h>
#include <windows.h>
#include <shellapi.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { BROKEN = 250, WAIT_S = 60, LINE = 4096, CHUNK = 65536 };

static SOCKET helper;
static CRITICAL_SECTION sending;

static BOOL send_all(const char *data, unsigned length) {
    while (length > 0) {
        int sent = send(helper, data, (int)length, 0);
        if (sent <= 0)
            return FALSE;
        data += sent;
        length -= (unsigned)sent;
    }
    return TRUE;
}

static BOOL receive_all(char *data, unsigned length) {
    while (length > 0) {
        int got = recv(helper, data, (int)length, 0);
        if (got <= 0)
            return FALSE;
        data += got;
        length -= (unsigned)got;
    }
    return TRUE;
}

static BOOL send_frame(char kind, const void *data, unsigned length) {
    char head[5];
    BOOL done;
    head[0] = kind;
    memcpy(head + 1, &length, 4);
    EnterCriticalSection(&sending);
    done = send_all(head, sizeof head) && send_all(data, length);
    LeaveCriticalSection(&sending);
    return done;
}

static void send_text(char kind, const WCHAR *text) {
    int size = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *narrow = malloc((size_t)size);
    WideCharToMultiByte(CP_UTF8, 0, text, -1, narrow, size, NULL, NULL);
    send_frame(kind, narrow, (unsigned)size - 1);
    free(narrow);
}

static DWORD WINAPI pass_input(void *unused) {
    HANDLE input = GetStdHandle(STD_INPUT_HANDLE);
    static char chunk[CHUNK];
    DWORD got;
    (void)unused;
    if (input != NULL && input != INVALID_HANDLE_VALUE)
        while (ReadFile(input, chunk, sizeof chunk, &got, NULL) && got > 0)
            if (!send_frame('I', chunk, got))
                return 1;
    send_frame('X', NULL, 0);
    return 0;
}

static SOCKET listen_anywhere(unsigned *port) {
    struct sockaddr_in address;
    int size = sizeof address;
    SOCKET door = socket(AF_INET, SOCK_STREAM, 0);
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(door, (struct sockaddr *)&address, sizeof address) || listen(door, 1))
        ExitProcess(BROKEN);
    getsockname(door, (struct sockaddr *)&address, &size);
    *port = ntohs(address.sin_port);
    return door;
}

static void start_helper(unsigned port) {
    WCHAR python[LINE / 4], link[LINE / 4], program[LINE], line[LINE];
    STARTUPINFOW start;
    PROCESS_INFORMATION process;
    if (!GetEnvironmentVariableW(L"TWINRIG_DOUBLE_PYTHON", python, LINE / 4))
        wcscpy(python, L"/usr/bin/python3");
    if (!GetEnvironmentVariableW(L"TWINRIG_DOUBLE_LINK", link, LINE / 4))
        ExitProcess(BROKEN + 1);
    swprintf(program, LINE, L"\\\\?\\unix%ls", python);
    swprintf(line, LINE, L"%ls \"%ls\" %u", python, link, port);
    memset(&start, 0, sizeof start);
    start.cb = sizeof start;
    if (!CreateProcessW(program, line, NULL, NULL, FALSE, 0, NULL, NULL, &start, &process))
        ExitProcess(BROKEN + 2);
}

static void accept_helper(SOCKET door) {
    struct timeval limit = {WAIT_S, 0};
    fd_set waiting;
    FD_ZERO(&waiting);
    FD_SET(door, &waiting);
    if (select(0, &waiting, NULL, NULL, &limit) != 1)
        ExitProcess(BROKEN + 3);
    helper = accept(door, NULL, NULL);
    closesocket(door);
}

static void pass_output(void) {
    HANDLE output = GetStdHandle(STD_OUTPUT_HANDLE), errors = GetStdHandle(STD_ERROR_HANDLE);
    static char chunk[CHUNK];
    char head[5];
    unsigned length, at, code;
    DWORD written;
    while (receive_all(head, sizeof head)) {
        memcpy(&length, head + 1, 4);
        if (length > sizeof chunk || !receive_all(chunk, length))
            break;
        if (head[0] == 'Q') {
            memcpy(&code, chunk, 4);
            ExitProcess(code);
        }
        for (at = 0; at < length; at += written)
            if (!WriteFile(head[0] == 'E' ? errors : output, chunk + at, length - at, &written, NULL))
                ExitProcess(BROKEN + 4);
    }
    ExitProcess(1); /* the other side is gone */
}

int wmain(int count, WCHAR **words) {
    WSADATA sockets;
    WCHAR own[LINE], *name, *end;
    unsigned port;
    SOCKET door;
    int n;
    InitializeCriticalSection(&sending);
    if (WSAStartup(MAKEWORD(2, 2), &sockets))
        return BROKEN;
    door = listen_anywhere(&port);
    start_helper(port);
    accept_helper(door);
    GetModuleFileNameW(NULL, own, LINE);
    name = wcsrchr(own, L'\\');
    name = name ? name + 1 : own;
    end = wcsrchr(name, L'.');
    if (end)
        *end = 0;
    send_text('P', name);
    for (n = 1; n < count; n++)
        send_text('A', words[n]);
    send_text('L', GetCommandLineW());
    send_frame('G', NULL, 0);
    CloseHandle(CreateThread(NULL, 0, pass_input, NULL, 0, NULL));
    pass_output();
    return 0;
}
