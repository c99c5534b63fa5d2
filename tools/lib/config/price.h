/* The price of a machine (report.price), as people write it. Pure functions, any thread. */
#ifndef PIPETRAIN_PRICE_H
#define PIPETRAIN_PRICE_H

#define PRICE_CURRENCY_MAX 8            /* characters */
#define PRICE_AMOUNT_MAX 1e9
/* For messages: what is accepted. */
#define PRICE_WORDS "an amount and a currency, such as 3.06 EUR or $3.06"

/* A price, or an amount of money. */
struct price {
    double amount;                      /* 0: there is none */
    char currency[4 * PRICE_CURRENCY_MAX + 1];
};

/* Parse an amount and a currency in any order, with a blank between them or none. The amount: digits, perhaps with a
 * decimal point and more digits, above 0 and at most PRICE_AMOUNT_MAX. The currency: one to PRICE_CURRENCY_MAX letters
 * or symbols (EUR, US$, a sign that is not ASCII), no digits, blanks or other punctuation. "" is no price. 0 or
 * -EINVAL. */
int price_read(const char *text, struct price *price_out);

struct price_text { char text[64]; };
/* "0.0104 EUR", with three digits below 1, else two places. "-" if the amount is not finite. */
struct price_text price_text(double amount, const char *currency);

#endif
