/* How the firmware speaks to the outside: output_semihosting.c, output_uart.c, or yours. */
#ifndef OUTPUT_H
#define OUTPUT_H

/* Prints a text. */
void put(const char *text);

/* The end of the program: 0 is success. Does not return. */
void finish(int status);

#endif
