/* Binary 3x3 convolution, bit-sliced: 32 pixels at once, in the lanes of a word (blrc_slices.h). */
#include "blrc_carry.h"
#include "blrc_window.h"

typedef uint32_t blrc_step;

#define BLRC_STEP 1
#define BLRC_GET(from) (*(from))
#define BLRC_PUT(to, v) (*(to) = (v))
#define BLRC_ALL(v) (v)
#define BLRC_FULL blrc_add3
#define BLRC_ANY(v, planes) ((v) != 0)
#include "blrc_slices.h"

void blrc_conv_slices(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint16_t) lists, BLRC_TABLE(uint16_t) limits,
                      uint32_t *scratch, uint32_t *y)
{
    blrc_slice(op, x, lists, limits, scratch, y);
}
