/* Test only, never shipped: Wine 8 has no Windows.UI.ViewManagement.UISettings, without which Qt's
 * platform "windows" does not start. This one tells light colours and never an event.
 * Register it as the DllPath of that class under ...\WindowsRuntime\ActivatableClassId. */
#include <string.h>
#include <windows.h>

typedef struct { void **methods; } object;

static const GUID IID_UNKNOWN = {0, 0, 0, {0xC0, 0, 0, 0, 0, 0, 0, 0x46}};
static const GUID IID_FACTORY = {0x35, 0, 0, {0xC0, 0, 0, 0, 0, 0, 0, 0x46}};
static const GUID IID_INSPECTABLE = {
    0xAF86E2E0, 0xB12D, 0x4C6A, {0x9C, 0x5A, 0xD7, 0xAA, 0x65, 0x10, 0x1E, 0x90}};
static const GUID IID_AGILE = {
    0x94EA2B94, 0xE9CC, 0x49E0, {0xC0, 0xFF, 0xEE, 0x64, 0xCA, 0x8F, 0x5B, 0x90}};
static const GUID IID_SETTINGS = {
    0x85361600, 0x1C63, 0x4627, {0xBC, 0xB1, 0x3A, 0x89, 0xE0, 0xBC, 0x9C, 0x55}};
static const GUID IID_SETTINGS3 = {
    0x03021BE4, 0x5254, 0x4781, {0x81, 0x94, 0x51, 0x68, 0xF7, 0xD0, 0x6D, 0x7B}};

enum { OWN = 6, SETTINGS_METHODS = 24, SETTINGS3_METHODS = 12, FACTORY_METHODS = 8 };
static void *settings_methods[SETTINGS_METHODS];
static void *settings3_methods[SETTINGS3_METHODS];
static void *factory_methods[FACTORY_METHODS];
static object settings = {settings_methods};
static object settings3 = {settings3_methods};
static object factory = {factory_methods};

static BOOL is(const GUID *a, const GUID *b) { return memcmp(a, b, sizeof *a) == 0; }

static BOOL basic(const GUID *id) {
    return is(id, &IID_UNKNOWN) || is(id, &IID_INSPECTABLE) || is(id, &IID_AGILE);
}

static HRESULT WINAPI ask_settings(void *self, const GUID *id, void **found) {
    (void)self;
    *found = is(id, &IID_SETTINGS3) ? (void *)&settings3
             : basic(id) || is(id, &IID_SETTINGS) ? (void *)&settings : NULL;
    return *found ? S_OK : E_NOINTERFACE;
}

static HRESULT WINAPI ask_factory(void *self, const GUID *id, void **found) {
    (void)self;
    *found = basic(id) || is(id, &IID_FACTORY) ? (void *)&factory : NULL;
    return *found ? S_OK : E_NOINTERFACE;
}

/* The objects are static: counting their users would free nothing. */
static ULONG WINAPI count_users(void *self) { (void)self; return 1; }

static HRESULT WINAPI no_interfaces(void *self, ULONG *count, IID **ids) {
    (void)self;
    *count = 0;
    *ids = NULL;
    return S_OK;
}

static HRESULT WINAPI no_name(void *self, void **name) { (void)self; *name = NULL; return S_OK; }
static HRESULT WINAPI base_trust(void *self, int *level) { (void)self; *level = 0; return S_OK; }
static HRESULT WINAPI absent(void *self, void *a) { (void)self; (void)a; return E_NOTIMPL; }

static HRESULT WINAPI create(void *self, void **made) {
    (void)self;
    *made = &settings;
    return S_OK;
}

/* kind: 0 background, 1 foreground, others are accents; bytes are alpha, red, green, blue. */
static HRESULT WINAPI colour(void *self, int kind, BYTE *argb) {
    static const BYTE white[] = {255, 255, 255, 255}, black[] = {255, 0, 0, 0};
    static const BYTE accent[] = {255, 0, 120, 212};
    (void)self;
    memcpy(argb, kind == 0 ? white : kind == 1 ? black : accent, 4);
    return S_OK;
}

static HRESULT WINAPI subscribe(void *self, void *handler, INT64 *token) {
    (void)self; (void)handler;
    *token = 1;
    return S_OK;
}

static void fill(void **methods, int count, void *ask) {
    void *common[OWN] = {ask, count_users, count_users, no_interfaces, no_name, base_trust};
    int n;
    for (n = 0; n < count; n++)
        methods[n] = n < OWN ? common[n] : (void *)absent;
}

__declspec(dllexport) HRESULT WINAPI DllGetActivationFactory(void *name, void **found) {
    (void)name;
    fill(settings_methods, SETTINGS_METHODS, ask_settings);
    fill(settings3_methods, SETTINGS3_METHODS, ask_settings);
    fill(factory_methods, FACTORY_METHODS, ask_factory);
    settings3_methods[OWN] = colour;
    settings3_methods[OWN + 1] = subscribe;
    factory_methods[OWN] = create;
    *found = &factory;
    return S_OK;
}

__declspec(dllexport) HRESULT WINAPI DllCanUnloadNow(void) { return S_FALSE; }
