/* Binary 3x3 convolution, bit-sliced (blrc_slices.h), in quads of words: 128 pixels at once, for CPUs with vectors
 * (blrc_quad.h). Other CPUs compute the same, word by word. */
#define BLRC_ALL_QUADS
#include "blrc_quad.h"
#include "blrc_window.h"

#if !BLRC_QUADS
#error "exported for the Cortex-M55: needs a compiler with vectors of GNU C; export it without --cpu"
#endif

typedef blrc_quad blrc_step;

#define BLRC_STEP 4
#define BLRC_GET blrc_quad_get
#define BLRC_PUT blrc_quad_put
#define BLRC_ALL blrc_quad_of
#define BLRC_FULL blrc_quad_add3
#define BLRC_ANY(v, planes) ((planes) != 0)
#include "blrc_slices.h"

void blrc_conv_quads(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint16_t) lists, BLRC_TABLE(uint16_t) limits,
                     uint32_t *scratch, uint32_t *y)
{
    blrc_slice(op, x, lists, limits, scratch, y);
}
