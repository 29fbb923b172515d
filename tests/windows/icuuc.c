/* Test only, never shipped: Wine has no icuuc.dll, which Windows brings since 10 version 1703.
 * Qt asks it for text converters. None can be opened here, so Qt uses its own. */
#include <stddef.h>
#include <stdint.h>

#define EXPORT __declspec(dllexport)
enum { U_UNSUPPORTED_ERROR = 16 };

static void refuse(int *status) {
    if (status)
        *status = U_UNSUPPORTED_ERROR;
}

EXPORT void *ucnv_open(const char *name, int *status) { (void)name; refuse(status); return NULL; }
EXPORT void ucnv_close(void *converter) { (void)converter; }
EXPORT void ucnv_reset(void *converter) { (void)converter; }
EXPORT int8_t ucnv_getMaxCharSize(const void *converter) { (void)converter; return 1; }
EXPORT int32_t ucnv_countAvailable(void) { return 0; }
EXPORT const char *ucnv_getAvailableName(int32_t n) { (void)n; return NULL; }

EXPORT const char *ucnv_getName(const void *converter, int *status) {
    (void)converter;
    refuse(status);
    return NULL;
}

EXPORT const char *ucnv_getStandardName(const char *name, const char *standard, int *status) {
    (void)name; (void)standard;
    refuse(status);
    return NULL;
}

EXPORT int32_t ucnv_toUCountPending(const void *converter, int *status) {
    (void)converter;
    refuse(status);
    return 0;
}

EXPORT int32_t ucnv_fromUCountPending(const void *converter, int *status) {
    (void)converter;
    refuse(status);
    return 0;
}

EXPORT void ucnv_getToUCallBack(const void *converter, void **action, const void **context) {
    (void)converter;
    *action = NULL;
    *context = NULL;
}

EXPORT void ucnv_getFromUCallBack(const void *converter, void **action, const void **context) {
    ucnv_getToUCallBack(converter, action, context);
}

EXPORT void ucnv_setToUCallBack(void *converter, void *action, const void *context,
                                void **old_action, const void **old_context, int *status) {
    (void)converter; (void)action; (void)context;
    if (old_action)
        *old_action = NULL;
    if (old_context)
        *old_context = NULL;
    refuse(status);
}

EXPORT void ucnv_setFromUCallBack(void *converter, void *action, const void *context,
                                  void **old_action, const void **old_context, int *status) {
    ucnv_setToUCallBack(converter, action, context, old_action, old_context, status);
}

EXPORT void ucnv_fromUnicode(void *converter, char **target, const char *target_end,
                             const uint16_t **source, const uint16_t *source_end,
                             int32_t *offsets, int8_t flush, int *status) {
    (void)converter; (void)target; (void)target_end; (void)source; (void)source_end;
    (void)offsets; (void)flush;
    refuse(status);
}

EXPORT void ucnv_toUnicode(void *converter, uint16_t **target, const uint16_t *target_end,
                           const char **source, const char *source_end,
                           int32_t *offsets, int8_t flush, int *status) {
    (void)converter; (void)target; (void)target_end; (void)source; (void)source_end;
    (void)offsets; (void)flush;
    refuse(status);
}

EXPORT void ucnv_cbToUWriteUChars(void *arguments, const uint16_t *source, int32_t length,
                                  int32_t offset, int *status) {
    (void)arguments; (void)source; (void)length; (void)offset;
    refuse(status);
}

EXPORT void ucnv_cbFromUWriteUChars(void *arguments, const uint16_t **source,
                                    const uint16_t *source_end, int32_t offset, int *status) {
    (void)arguments; (void)source; (void)source_end; (void)offset;
    refuse(status);
}

EXPORT void UCNV_TO_U_CALLBACK_SUBSTITUTE(const void *context, void *arguments, const char *units,
                                          int32_t length, int reason, int *status) {
    (void)context; (void)arguments; (void)units; (void)length; (void)reason;
    refuse(status);
}

EXPORT void UCNV_FROM_U_CALLBACK_SUBSTITUTE(const void *context, void *arguments,
                                            const uint16_t *units, int32_t length,
                                            int32_t code_point, int reason, int *status) {
    (void)context; (void)arguments; (void)units; (void)length; (void)code_point; (void)reason;
    refuse(status);
}
