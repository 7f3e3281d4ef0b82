/* What a compiler may call where there is no C library. Leave this file out if you link one. */
#include <stddef.h>

void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

void *memcpy(void *to, const void *from, size_t bytes)
{
    unsigned char *target = (unsigned char *)to;
    const unsigned char *source = (const unsigned char *)from;

    while (bytes-- > 0) {
        *target++ = *source++;
    }
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    unsigned char *target = (unsigned char *)to;

    while (bytes-- > 0) {
        *target++ = (unsigned char)value;
    }
    return to;
}
