/* Classifies 28 x 28 images with the exported MNIST network.
 *
 *     classify            one drawing, compiled in
 *     classify FILE       all images of an IDX file (MNIST's own format, not compressed), or one binary PGM
 *
 * In a firmware only arena, scores and the call of mnist_classify remain. */
#include <stdio.h>
#include <string.h>

#include "mnist.h"

/* Declared as words, so that it is aligned for the network. */
static uint32_t arena[(MNIST_ARENA_SIZE + 3) / 4];
static int32_t scores[MNIST_CLASSES];
static uint8_t image[MNIST_INPUT_SIZE];

static const char drawing[] =
    "                            "
    "                            "
    "                            "
    "                            "
    "                            "
    "                            "
    "                            "
    "      .+++.                 "
    "      ######+++++++++.      "
    "      ....+##########+      "
    "            . .... ##.      "
    "                  .#+       "
    "                  ##.       "
    "                 +##.       "
    "                .##.        "
    "                +#+         "
    "                +#.         "
    "               .#+          "
    "              .##.          "
    "              ##+           "
    "             +##            "
    "             ##.            "
    "            ##.             "
    "           +##.             "
    "          .###.             "
    "          .###              "
    "          .#+               "
    "                            ";

/* Raw pixels, 0 to 255, go in: the standardisation is part of the network. */
static void classify_image(void)
{
    const int label = mnist_classify(image, arena, scores);
    int i;

    printf("label %d, scores", label);
    for (i = 0; i < MNIST_CLASSES; ++i) {
        printf(" %ld", (long)scores[i]);
    }
    printf("\n");
}

/* Reads the header of an IDX or PGM file; 0 if its images do not fit the network. */
static int read_header(FILE *file)
{
    static const unsigned char idx[4] = {0, 0, 8, 3}; /* unsigned bytes in three dimensions */
    unsigned char head[16];
    int width, height, most;

    if (fread(head, 1, 2, file) != 2) {
        return 0;
    }
    if (memcmp(head, "P5", 2) == 0) {
        return fscanf(file, " %d %d %d", &width, &height, &most) == 3 && fgetc(file) != EOF && most == 255 &&
               height == MNIST_INPUT_HEIGHT && width == MNIST_INPUT_WIDTH;
    }
    /* After the magic come the number of images, the height and the width, big-endian. */
    return fread(head + 2, 1, 14, file) == 14 && memcmp(head, idx, 4) == 0 && head[11] == MNIST_INPUT_HEIGHT &&
           head[15] == MNIST_INPUT_WIDTH;
}

int main(int argc, char **argv)
{
    FILE *file;
    int i;

    if (argc < 2) {
        for (i = 0; i < MNIST_INPUT_SIZE; ++i) {
            image[i] = (uint8_t)(drawing[i] == '#' ? 255 : drawing[i] == '+' ? 170 : drawing[i] == '.' ? 85 : 0);
        }
        classify_image();
        return 0;
    }
    file = fopen(argv[1], "rb");
    if (file == NULL || !read_header(file)) {
        fprintf(stderr, "%s: no IDX or binary PGM file of 28 x 28 images\n", argv[1]);
        return 1;
    }
    while (fread(image, 1, sizeof image, file) == sizeof image) {
        classify_image();
    }
    fclose(file);
    return 0;
}
