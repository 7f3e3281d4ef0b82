/* Output to a serial line: USART1 of an STM32F4, pin PA9, 115200 baud. Names and addresses: ST's RM0090. */
#include <stdint.h>

#include "output.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define RCC_AHB1ENR REGISTER(0x40023830u)
#define RCC_APB2ENR REGISTER(0x40023844u)
#define GPIOA_MODER REGISTER(0x40020000u)
#define GPIOA_AFRH REGISTER(0x40020024u)
#define USART1_SR REGISTER(0x40011000u)
#define USART1_DR REGISTER(0x40011004u)
#define USART1_BRR REGISTER(0x40011008u)
#define USART1_CR1 REGISTER(0x4001100Cu)

#define CLOCK 16000000u /* Hz: the internal oscillator, which runs after reset */
#define BAUD 115200u
#define USART_ON (1u << 13 | 1u << 3) /* UE and TE: the USART and its transmitter */
#define EMPTY (1u << 7)               /* TXE */
#define SENT (1u << 6)                /* TC */

static void set_up(void)
{
    RCC_AHB1ENR |= 1u << 0; /* clock of port A */
    RCC_APB2ENR |= 1u << 4; /* clock of USART1 */
    GPIOA_MODER = (GPIOA_MODER & ~(3u << 18)) | 2u << 18; /* PA9: alternate function ... */
    GPIOA_AFRH = (GPIOA_AFRH & ~(15u << 4)) | 7u << 4; /* ... 7, USART1 */
    USART1_BRR = (CLOCK + BAUD / 2) / BAUD;
    USART1_CR1 = USART_ON;
}

static void put_character(char character)
{
    while ((USART1_SR & EMPTY) == 0) {
    }
    USART1_DR = (uint8_t)character;
}

void put(const char *text)
{
    if ((USART1_CR1 & USART_ON) != USART_ON) {
        set_up();
    }
    for (; *text != '\0'; ++text) {
        if (*text == '\n') {
            put_character('\r'); /* terminals want both */
        }
        put_character(*text);
    }
}

void finish(int status)
{
    char text[] = "exit ?\n";

    text[5] = (char)('0' + status % 10);
    put(text);
    while ((USART1_SR & SENT) == 0) {
    }
    for (;;) {
    }
}
