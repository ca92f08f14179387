/* The line file that drives the fake: which answer, return code or fault each call gets. */
#ifndef SCRIPT_H
#define SCRIPT_H

enum { SYSTEM = -1, ANY = -2, NO_MIG = -1, MAX_GPUS = 32, MAX_MIGS = 16 };

/* Reads FAKE_NVML_FILE; aborts on a line that cannot be parsed. */
void script_load(void);

/* What a call on a GPU (or SYSTEM), or on one of its MIG devices, is answered: logs the call, acts out a fault, and
 * returns a return code with *value set to the text of the answer where it is 0. `fallback` is the return code
 * where no line matches. The question is the function's name and its arguments: "nvmlDeviceGetP2PStatus/1/0". */
int script_ask(int gpu, int mig, int fallback, const char **value, const char *question, ...)
    __attribute__((format(printf, 5, 6)));

/* The numbers of an answer, in any base that strtoull reads; aborts unless there are exactly `count`. */
void script_numbers(const char *value, unsigned long long *numbers, int count);

/* Stop with a message in the trace and on standard error: the test that caused it must not pass. */
void script_abort(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
