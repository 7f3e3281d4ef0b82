/* Classifies a recorded digit, says how certain the network is of it, and tests the network on this device.
 *
 * Exit status: 0 all is well, 1 wrong label, 2 the self-test found a difference, 3 fault (start.c). */
#include <stdint.h>

#include "mnist.h"
#include "output.h"

#ifdef OWN_IMAGE /* a network that takes no digits of 28 x 28 is shown the first of its own recorded inputs */
#include "mnist_image.h"
#define IMAGE mnist_image
#define LABEL MNIST_IMAGE_LABEL
#else
#include "digit.h"
#define IMAGE digit
#define LABEL DIGIT_LABEL
#if MNIST_INPUT_HEIGHT != 28 || MNIST_INPUT_WIDTH != 28 || MNIST_INPUT_CHANNELS != 1
#error "digit.h is for 28 x 28 pixels: define OWN_IMAGE"
#endif
#endif

static uint32_t arena[(MNIST_ARENA_SIZE + 3) / 4]; /* of words, so that it is aligned */
static mnist_ensemble members;

/* At least so many digits, with zeros in front. */
static void put_number(uint32_t number, int digits)
{
    char text[11];
    char *first = text + 10;

    *first = '\0';
    do {
        *--first = (char)('0' + number % 10);
        number /= 10;
        --digits;
    } while (number > 0 || digits > 0);
    put(first);
}

#ifdef OWN_IMAGE
static void draw(void)
{
    put("the network's own recorded input\n");
}
#else
static void draw(void)
{
    const uint8_t *pixels = IMAGE;
    static const char shades[] = " .:-=+#%@";
    char row[MNIST_INPUT_WIDTH + 2];
    int y, x;

    for (y = 0; y < MNIST_INPUT_HEIGHT; ++y) {
        for (x = 0; x < MNIST_INPUT_WIDTH; ++x) {
            row[x] = shades[*pixels++ * 9 / 256];
        }
        row[x] = '\n';
        row[x + 1] = '\0';
        put(row);
    }
}
#endif

/* Members of the ensemble are asked until the rest cannot change the label. */
static int classify(void)
{
    mnist_answer answer;
    uint32_t percent, variance;

    if (mnist_predict(IMAGE, arena, &members, 0, &answer) < 0) {
        return -1;
    }
    percent = (answer.mean * 10000 + 32768) / 65536;                /* in hundredths */
    variance = (uint32_t)(((uint64_t)answer.variance * 1000000) >> 32); /* in millionths */
    put("label: ");
    put_number((uint32_t)answer.label, 1);
    put(answer.label == LABEL ? " (as recorded)" : " (NOT what was recorded)");
    put("\nprobability: ");
    put_number(percent / 100, 1);
    put(".");
    put_number(percent % 100, 2);
    put(" %, variance 0.");
    put_number(variance, 6);
    put("\nmembers asked: ");
    put_number(answer.members, 1);
    put(" of ");
    put_number(MNIST_MEMBERS, 1);
    put("\n");
    return (int)answer.label;
}

/* The recorded inputs of mnist_selftest.c, at every step of every member. A product may do this once, after power-on. */
static int test(void)
{
    static const char *const steps[MNIST_OPS] = MNIST_STEP_NAMES;
    const int result = mnist_selftest(arena);

    put("self-test: ");
    if (result == 0) {
        put("all equal\n");
    } else if (result < 0 || result > MNIST_MEMBERS * MNIST_OPS) {
        put("the ensemble's answer differs\n");
    } else {
        put(steps[(result - 1) % MNIST_OPS]);
        put(" of member ");
        put_number((uint32_t)(result - 1) / MNIST_OPS, 1);
        put(" differs\n");
    }
    return result;
}

int main(void)
{
    int label, difference;

    draw();
    label = classify();
    difference = test();
    if (difference != 0) {
        return 2;
    }
    return label == LABEL ? 0 : 1;
}
