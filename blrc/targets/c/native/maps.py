"""Write the C that turns maps from the caller's form, a byte for each number, to the network's words and back."""

from __future__ import annotations

from blrc.program.program import Value


def map_of(value: Value) -> str:
    """Return the fields of a ``host_map``, which describes a value."""
    height, width, channels = value.shape
    planes = value.element.planes
    outside = height * width * channels if planes else value.nbytes
    return f"{{{planes}, {height * width}u, {channels}u, {value.nbytes}u, {outside}u}}"


MAPS = """\
#define NAME_UNUSED_BIT (-101) /* a bit behind the last channel is set */

/* A map: how many bits of its numbers lie apart, each in words of 32 channels; how many pixels and channels; its bytes
 * in the network, and outside. */
typedef struct host_map {
    uint32_t planes;
    uint32_t pixels, channels, inside, outside;
} host_map;

/* A sample as the network reads it: bits are packed into `packed`, all else stays where it is. */
static const void *host_pack(const host_map *map, const unsigned char *from, uint32_t *packed)
{
    uint32_t *to = packed;
    uint32_t pixel, p, c;

    if (map->planes == 0) {
        return from;
    }
    for (pixel = 0; pixel < map->pixels; ++pixel, from += map->channels) {
        for (p = 0; p < map->planes; ++p) {
            uint32_t word = 0;

            for (c = 0; c < map->channels; ++c) {
                word |= (uint32_t)(from[c] >> p & 1) << (c % 32);
                if (c % 32 == 31 || c + 1 == map->channels) {
                    *to++ = word;
                    word = 0;
                }
            }
        }
    }
    return packed;
}

/* Pixels as the network wrote them, to the caller; their bytes there, or an error. */
static int64_t host_unpack(const host_map *map, const void *written, uint32_t bytes, unsigned char *to)
{
    const uint32_t *words = (const uint32_t *)written;
    const uint32_t of_plane = (map->channels + 31) / 32;
    const uint32_t pixels = map->planes == 0 ? 0 : bytes / 4 / (of_plane * map->planes);
    uint32_t pixel, p, c;

    if (map->planes == 0) {
        memcpy(to, written, bytes);
        return (int64_t)bytes;
    }
    for (pixel = 0; pixel < pixels; ++pixel, to += map->channels) {
        memset(to, 0, map->channels);
        for (p = 0; p < map->planes; ++p) {
            for (c = 0; c < map->channels; ++c) {
                to[c] = (unsigned char)(to[c] | (words[c / 32] >> (c % 32) & 1) << p);
            }
            words += of_plane;
            if (map->channels % 32 != 0 && words[-1] >> (map->channels % 32) != 0) {
                return NAME_UNUSED_BIT;
            }
        }
    }
    return (int64_t)pixels * (int64_t)map->channels;
}
"""
"""C of ``host_map``, ``host_pack`` and ``host_unpack``."""
