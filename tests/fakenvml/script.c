#define _GNU_SOURCE
#include "script.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* One line: "DEVICE FUNCTION[/ARGUMENT...] = ANSWER", "... ! RETURN CODE" or "... @ FAULT". DEVICE is "-" for the
 * system, a number for a GPU, "0.2" for the MIG device with index 2 of GPU 0, "*" for any of them. FUNCTION and
 * arguments are a shell pattern over the question. The last line that matches holds. */
struct rule {
    int gpu, mig;
    char *pattern;
    char kind;
    char *value;
};

static struct rule *rules;
static int rule_count;
static int is_lost[MAX_GPUS];

static void trace(const char *text) {
    const char *path = getenv("FAKE_NVML_TRACE");
    if (path == NULL || *path == '\0')
        return;
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0 || write(file, text, strlen(text)) < 0)
        abort();
    close(file);
}

void script_abort(const char *format, ...) {
    char text[512] = "abort: ";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + 7, sizeof text - 8, format, arguments);
    va_end(arguments);
    strcat(text, "\n");
    fputs(text, stderr);
    trace(text);
    abort();
}

static int is_number(const char *text) {
    char *end;
    errno = 0;
    strtoull(text, &end, 0);
    return errno == 0 && end != text && *end == '\0' && *text != '-';
}

static int parse_device(char *text, struct rule *rule) {
    rule->mig = NO_MIG;
    if (strcmp(text, "-") == 0) {
        rule->gpu = SYSTEM;
        return 1;
    }
    if (strcmp(text, "*") == 0) {
        rule->gpu = ANY;
        return 1;
    }
    char *dot = strchr(text, '.');
    if (dot != NULL) {
        *dot = '\0';
        if (!is_number(dot + 1))
            return 0;
        rule->mig = atoi(dot + 1);
    }
    rule->gpu = is_number(text) ? atoi(text) : MAX_GPUS;
    return rule->gpu < MAX_GPUS && rule->mig < MAX_MIGS;
}

static int is_fault(const char *text) {
    static const char *const faults[] = {"hang", "segv", "abort", "exit", "lost", NULL};
    for (const char *const *fault = faults; *fault != NULL; fault++)
        if (strcmp(text, *fault) == 0)
            return 1;
    return strncmp(text, "sleep=", 6) == 0 && is_number(text + 6);
}

/* "\xff" stands for a byte that no text file should hold. */
static void unescape(char *text) {
    char *out = text;
    for (char *in = text; *in != '\0'; in++) {
        unsigned int byte;
        if (in[0] == '\\' && in[1] == 'x' && sscanf(in + 2, "%2x", &byte) == 1) {
            *out++ = (char)byte;
            in += 3;
        } else {
            *out++ = *in;
        }
    }
    *out = '\0';
}

static int parse(char *line, struct rule *rule) {
    int pattern_at = 0, kind_at = 0, value_at = 0;
    sscanf(line, "%*s %n%*s %n%*c %n", &pattern_at, &kind_at, &value_at);
    if (value_at == 0 || strchr("=!@", line[kind_at]) == NULL || (line[kind_at + 1] & ~' ') != '\0')
        return 0;
    char device[32], pattern[128];
    if (sscanf(line, "%31s %127s", device, pattern) != 2 || !parse_device(device, rule))
        return 0;
    if (strncmp(pattern, "nvml", 4) != 0 && strcmp(pattern, "*") != 0)
        return 0;
    rule->kind = line[kind_at];
    rule->value = strdup(line[kind_at + 1] == '\0' ? "" : line + kind_at + 2);
    rule->pattern = strdup(pattern);
    unescape(rule->value);
    return rule->kind == '=' || (rule->kind == '!' ? is_number(rule->value) : is_fault(rule->value));
}

void script_load(void) {
    const char *path = getenv("FAKE_NVML_FILE");
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    if (file == NULL)
        script_abort("FAKE_NVML_FILE names no file that can be read");
    rule_count = 0;
    memset(is_lost, 0, sizeof is_lost);
    char line[1024];
    for (int number = 1; fgets(line, sizeof line, file) != NULL; number++) {
        char whole[sizeof line];
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        strcpy(whole, line);
        rules = realloc(rules, (size_t)(rule_count + 1) * sizeof *rules);
        if (!parse(line, &rules[rule_count++]))
            script_abort("line %d of the script cannot be parsed: %s", number, whole);
    }
    fclose(file);
}

static void act_out(const char *fault, int gpu) {
    if (strcmp(fault, "hang") == 0)
        for (;;)
            pause();
    if (strcmp(fault, "segv") == 0)
        raise(SIGSEGV);
    if (strcmp(fault, "abort") == 0)
        abort();
    if (strcmp(fault, "exit") == 0)
        _exit(127);
    if (strncmp(fault, "sleep=", 6) == 0) {
        int ms = atoi(fault + 6);
        struct timespec span = {ms / 1000, (long)(ms % 1000) * 1000000};
        nanosleep(&span, NULL);
    }
    if (strcmp(fault, "lost") == 0 && gpu >= 0)
        is_lost[gpu] = 1;
}

int script_ask(int gpu, int mig, int fallback, const char **value, const char *question, ...) {
    char text[160], line[200];
    va_list arguments;
    va_start(arguments, question);
    vsnprintf(text, sizeof text, question, arguments);
    va_end(arguments);
    if (gpu < 0)
        snprintf(line, sizeof line, "- %s\n", text);
    else if (mig < 0)
        snprintf(line, sizeof line, "%d %s\n", gpu, text);
    else
        snprintf(line, sizeof line, "%d.%d %s\n", gpu, mig, text);
    trace(line);
    for (int i = rule_count - 1; i >= 0; i--) {
        const struct rule *rule = &rules[i];
        int is_same = rule->gpu == ANY ? gpu >= 0 : rule->gpu == gpu && rule->mig == mig;
        if (!is_same || fnmatch(rule->pattern, text, 0) != 0)
            continue;
        if (rule->kind == '@') {
            act_out(rule->value, gpu);
            if (gpu >= 0 && is_lost[gpu])
                return 15;
            continue; /* a pause is over: the answer stands on an earlier line */
        }
        if (gpu >= 0 && is_lost[gpu])
            return 15;
        if (rule->kind == '!')
            return atoi(rule->value);
        if (value != NULL)
            *value = rule->value;
        return 0;
    }
    return gpu >= 0 && is_lost[gpu] ? 15 : fallback;
}

void script_numbers(const char *value, unsigned long long *numbers, int count) {
    char *copy = strdup(value), *rest = NULL;
    int found = 0;
    for (char *part = strtok_r(copy, " ", &rest); part != NULL; part = strtok_r(NULL, " ", &rest)) {
        if (!is_number(part) || found == count)
            script_abort("%d numbers were wanted, the answer is: %s", count, value);
        numbers[found++] = strtoull(part, NULL, 0);
    }
    if (found != count)
        script_abort("%d numbers were wanted, the answer is: %s", count, value);
    free(copy);
}
