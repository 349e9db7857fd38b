/* A load generator that uses little CPU: HTTP/1.1 POSTs on keep-alive connections, one thread, epoll.
 *
 *   cc -O2 -o loadgen loadgen.c -lm
 *   loadgen --port P --path /translate --bodies FILE --clients N (--seconds S | --requests N)
 *           [--warmup S] [--rate R [--poisson]] [--timeout S] [--offset N] [--replies FILE] [--times FILE] [--host A]
 *
 * FILE holds one JSON body a line, sent round robin. Without --rate the loop is closed: a client sends
 * its next request when its last reply has arrived. With --rate, requests are due at fixed intervals,
 * or with --poisson at random times. Latency then counts from the time when the request was due. The
 * program prints "start" and "end" when the measured window opens and closes, then one JSON object.
 * Every reply must have a Content-Length. --replies writes the body of each reply on a line of its own.
 * --times writes the monotonic time of each end of a request and its status; failures have numbers from 600.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { IDLE, SENDING, RECEIVING, PAUSED };
#define PAUSE_SECONDS 0.1 /* Pause of a client after an error, before its next request. */
#define MAX_STATUS 600    /* This and larger numbers stand for failures that have no status. */
enum { CONNECT = MAX_STATUS, CLOSED, TIMEOUT, UNSENT, NUM_KINDS };
#define NEVER 1e300
#define POLL_SECONDS 0.02
#define MAX_STRETCH 10 /* Largest factor by which warm-up and window grow. */

typedef struct { char *bytes; size_t size; } Text;
typedef struct {
  int fd, state, is_writing;
  long index;                /* Number of its request, from 0. */
  double due, sent, until;   /* Times: request due, request sent, end of the pause. */
  size_t done;               /* Number of bytes sent. */
  char *buffer;
  size_t filled, capacity;
} Client;

static const char *host = "127.0.0.1", *path = "/", *bodies_file, *replies_file, *times_file;
static FILE *times;
static int port, num_clients = 1, is_poisson;
static double seconds, warmup, rate, timeout = 60;
static long max_requests, offset;

static Text *requests, *replies;
static long num_bodies, num_replies, num_sent, num_good, num_latencies, capacity_latencies;
static double *latencies, start, end, next_due; /* Planned start and end of the measured window. */
static double opened, closed;                   /* Times when the window opened and closed; 0 before. */
static long errors[NUM_KINDS], num_errors, num_open;
static Client *clients;
static int poller, timer;

static void die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("loadgen: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static double cpu(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_utime.tv_sec + u.ru_stime.tv_sec + 1e-6 * (u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void *grow(void *old, size_t size) {
  void *new = realloc(old, size);
  if (!new) die("out of memory for %zu bytes", size);
  return new;
}

static void read_bodies(void) {
  FILE *file = fopen(bodies_file, "r");
  char *line = NULL;
  size_t capacity = 0;
  ssize_t size;
  if (!file) die("%s: %s", bodies_file, strerror(errno));
  while ((size = getline(&line, &capacity, file)) > 0) {
    if (line[size - 1] == '\n') size--;
    if (!size) continue;
    requests = grow(requests, (num_bodies + 1) * sizeof *requests);
    Text *text = &requests[num_bodies++];
    text->bytes = grow(NULL, size + strlen(path) + strlen(host) + 200);
    int head = sprintf(text->bytes,
                       "POST %s HTTP/1.1\r\nHost: %s:%d\r\nContent-Type: application/json\r\n"
                       "Content-Length: %zd\r\n\r\n", path, host, port, size);
    memcpy(text->bytes + head, line, size);
    text->size = head + size;
  }
  free(line);
  fclose(file);
  if (!num_bodies) die("%s is empty; it needs one JSON body a line", bodies_file);
}

static void watch(Client *c, int is_writing, int operation) {
  struct epoll_event event = {.events = EPOLLIN | (is_writing ? EPOLLOUT : 0), .data.ptr = c};
  if (epoll_ctl(poller, operation, c->fd, &event)) die("epoll: %s", strerror(errno));
  c->is_writing = is_writing;
}

static int open_connection(Client *c) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  int one = 1;
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) die("--host %s is not an IPv4 address", host);
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (c->fd < 0) die("socket: %s", strerror(errno));
  if (connect(c->fd, (struct sockaddr *)&address, sizeof address)) {
    close(c->fd);
    c->fd = -1;
    return 0;
  }
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
  watch(c, 0, EPOLL_CTL_ADD);
  return 1;
}

static void drop_connection(Client *c) {
  if (c->fd >= 0) close(c->fd); /* This also removes it from the poller. */
  c->fd = -1;
}

/* Ends a request. `kind` is its status, or its kind of failure. */
static void finish(Client *c, int kind) {
  double t = now();
  /* An open loop measures requests due in the window, a closed loop requests that end in it. */
  int counts = max_requests || (rate > 0 ? c->due >= start && c->due < end : opened && !closed);
  num_open--;
  c->state = IDLE;
  if (times) fprintf(times, "%.4f %d\n", t, kind);
  if (kind == 200) {
    num_good++;
    if (!counts) return;
    if (num_latencies == capacity_latencies) {
      capacity_latencies = capacity_latencies ? 2 * capacity_latencies : 4096;
      latencies = grow(latencies, capacity_latencies * sizeof *latencies);
    }
    latencies[num_latencies++] = t - c->due;
    return;
  }
  errors[kind]++;
  num_errors++;
  c->state = PAUSED;
  c->until = t + PAUSE_SECONDS;
}

static void fail(Client *c, int kind) {
  drop_connection(c);
  finish(c, kind);
}

static void keep_reply(long index, const char *bytes, size_t size) {
  if (!replies_file) return;
  if (index >= num_replies) {
    long wanted = 2 * index + 64;
    replies = grow(replies, wanted * sizeof *replies);
    memset(replies + num_replies, 0, (wanted - num_replies) * sizeof *replies);
    num_replies = wanted;
  }
  replies[index] = (Text){grow(NULL, size + 1), size};
  memcpy(replies[index].bytes, bytes, size);
  for (size_t i = 0; i < size; i++)
    if (bytes[i] == '\n' || bytes[i] == '\r') replies[index].bytes[i] = ' ';
}

static void write_request(Client *c) {
  const Text *text = &requests[(c->index + offset) % num_bodies];
  while (c->done < text->size) {
    ssize_t n = send(c->fd, text->bytes + c->done, text->size - c->done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      if (!c->is_writing) watch(c, 1, EPOLL_CTL_MOD);
      return;
    }
    if (n <= 0) { fail(c, CLOSED); return; }
    c->done += n;
  }
  if (c->is_writing) watch(c, 0, EPOLL_CTL_MOD);
  c->state = RECEIVING;
}

static void send_request(Client *c, double due) {
  c->index = num_sent++;
  c->due = due;
  c->sent = now();
  c->done = c->filled = 0;
  c->state = SENDING;
  num_open++;
  if (c->fd < 0 && !open_connection(c)) fail(c, CONNECT);
  else write_request(c);
}

/* Returns the value of a header in a head that ends in a zero byte; NULL if it has no such header. */
static const char *header(const char *head, const char *name) {
  for (const char *line = strstr(head, "\r\n"); line; line = strstr(line, "\r\n")) {
    line += 2;
    if (!strncasecmp(line, name, strlen(name)) && line[strlen(name)] == ':')
      return line + strlen(name) + 1 + strspn(line + strlen(name) + 1, " \t");
  }
  return NULL;
}

/* Ends the request if its whole reply has arrived. */
static void parse_reply(Client *c) {
  char *blank = memmem(c->buffer, c->filled, "\r\n\r\n", 4);
  if (!blank) return;
  blank[2] = 0;
  const char *length = header(c->buffer, "content-length"), *last = header(c->buffer, "connection");
  int status = strncmp(c->buffer, "HTTP/1.", 7) ? 0 : atoi(c->buffer + 9);
  if (status < 100 || status >= MAX_STATUS || !length)
    die("a reply has no status or no Content-Length, and both are needed: %.200s", c->buffer);
  size_t head = blank + 4 - c->buffer, body = strtoul(length, NULL, 10);
  int is_last = last && !strncasecmp(last, "close", 5);
  blank[2] = '\r';
  if (c->filled < head + body) return;
  if (status == 200) keep_reply(c->index, c->buffer + head, body);
  if (is_last) drop_connection(c);
  finish(c, status);
}

static void read_reply(Client *c) {
  for (;;) {
    if (c->filled == c->capacity) c->buffer = grow(c->buffer, (c->capacity = 2 * c->capacity + 4096) + 1);
    ssize_t n = recv(c->fd, c->buffer + c->filled, c->capacity - c->filled, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      if (c->state == RECEIVING || c->state == SENDING) fail(c, CLOSED);
      else drop_connection(c); /* The server has closed an idle connection. */
      return;
    }
    if (c->state != RECEIVING) die("the server sent bytes without a request");
    c->filled += n;
    c->buffer[c->filled] = 0;
    parse_reply(c);
    if (c->state != RECEIVING) return;
  }
}

static int may_send(double t) {
  if (max_requests && num_sent >= max_requests) return 0;
  if (rate <= 0) return max_requests || t < end;
  return next_due <= t && (max_requests || next_due < end);
}

/* Sends due requests and ends requests that timed out. Returns the time of the next event. */
static double dispatch(double t) {
  double wake = t < start ? start : t < end ? end : NEVER;
  for (int i = 0; i < num_clients; i++) {
    Client *c = &clients[i];
    if (c->state == PAUSED && c->until <= t) c->state = IDLE;
    if (c->state == IDLE && may_send(t)) {
      send_request(c, rate > 0 ? next_due : t);
      if (rate > 0) next_due += is_poisson ? -log(1 - drand48()) / rate : 1 / rate;
    }
    if (c->state == PAUSED) wake = fmin(wake, c->until);
    if (c->state == SENDING || c->state == RECEIVING) {
      if (t - c->sent >= timeout) fail(c, TIMEOUT);
      else wake = fmin(wake, c->sent + timeout);
    }
  }
  return rate > 0 && next_due > t && next_due < end ? fmin(wake, next_due) : wake;
}

/* Reports whether a closed loop has too few replies to end the warm-up or the window. The warm-up lasts
 * until each client has had one reply on average, and the window until each has had two. With many
 * clients and a slow server, the first replies have other latencies than later replies. */
static int too_few(long replies, long wanted, double deadline) {
  return !max_requests && rate <= 0 && replies < wanted && now() < deadline;
}

/* Counts the requests of an open loop that were due in the window while no client was free. */
static void count_unsent(void) {
  for (; rate > 0 && !max_requests && next_due < end; next_due += 1 / rate) errors[UNSENT]++;
}

static void wait_until(double moment) {
  struct epoll_event events[256];
  double left = fmin(fmax(moment - now(), 1e-6), 3600);
  struct itimerspec once = {.it_value = {(time_t)left, (long)(1e9 * fmod(left, 1))}};
  timerfd_settime(timer, 0, &once, NULL);
  int n = epoll_wait(poller, events, 256, -1);
  for (int i = 0; i < n; i++) {
    Client *c = events[i].data.ptr;
    if (!c) { unsigned long long ticks; (void)!read(timer, &ticks, sizeof ticks); continue; }
    if (c->fd >= 0 && c->state == SENDING && events[i].events & EPOLLOUT) write_request(c);
    if (c->fd >= 0 && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_reply(c);
  }
}

static void print_mark(const char *word) {
  puts(word);
  fflush(stdout);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double percentile(double percent) {
  if (!num_latencies) return 0;
  long rank = (long)ceil(num_latencies * percent / 100);
  return 1000 * latencies[rank < 1 ? 0 : rank - 1];
}

static void report(double window, double own) {
  static const char *kinds[] = {"connect", "closed", "timeout", "unsent"};
  const char *comma = "";
  qsort(latencies, num_latencies, sizeof *latencies, by_value);
  printf("{\"requests\": %ld, \"seconds\": %.6f, \"rate\": %.3f, \"p50_ms\": %.3f, \"p95_ms\": %.3f, "
         "\"p99_ms\": %.3f, \"max_ms\": %.3f, \"own_cpu_seconds\": %.4f, \"errors\": {",
         num_latencies, window, num_latencies / window, percentile(50), percentile(95), percentile(99),
         percentile(100), own);
  for (int kind = 0; kind < NUM_KINDS; kind++) {
    if (!errors[kind]) continue;
    if (kind < MAX_STATUS) printf("%s\"%d\": %ld", comma, kind, errors[kind]);
    else printf("%s\"%s\": %ld", comma, kinds[kind - MAX_STATUS], errors[kind]);
    comma = ", ";
  }
  puts("}}");
}

static void write_replies(void) {
  FILE *file = fopen(replies_file, "w");
  for (long i = 0; file && i < num_sent; i++) {
    if (i < num_replies && replies[i].bytes) fwrite(replies[i].bytes, 1, replies[i].size, file);
    fputc('\n', file);
  }
  if (!file || fclose(file)) die("%s: %s", replies_file, strerror(errno));
}

static void parse_arguments(int argc, char **argv) {
  struct { const char *name; char type; void *value; } flags[] = {
      {"--host", 's', &host}, {"--path", 's', &path}, {"--bodies", 's', &bodies_file},
      {"--replies", 's', &replies_file}, {"--times", 's', &times_file}, {"--port", 'i', &port}, {"--clients", 'i', &num_clients},
      {"--requests", 'l', &max_requests}, {"--offset", 'l', &offset}, {"--seconds", 'd', &seconds},
      {"--warmup", 'd', &warmup}, {"--rate", 'd', &rate}, {"--timeout", 'd', &timeout}};
  for (int i = 1; i < argc; i++) {
    size_t flag = 0, count = sizeof flags / sizeof *flags;
    if (!strcmp(argv[i], "--poisson")) { is_poisson = 1; continue; }
    while (flag < count && strcmp(argv[i], flags[flag].name)) flag++;
    if (flag == count || i + 1 == argc) die("argument %s is unknown or has no value", argv[i]);
    const char *text = argv[++i];
    if (flags[flag].type == 's') *(const char **)flags[flag].value = text;
    else if (flags[flag].type == 'i') *(int *)flags[flag].value = atoi(text);
    else if (flags[flag].type == 'l') *(long *)flags[flag].value = atol(text);
    else *(double *)flags[flag].value = atof(text);
  }
  if (!bodies_file || !port || num_clients < 1 || offset < 0) die("needed: --port, --bodies, --clients > 0");
  if ((seconds > 0) == (max_requests > 0)) die("give either --seconds or --requests, above 0");
}

int main(int argc, char **argv) {
  parse_arguments(argc, argv);
  read_bodies();
  if (times_file && !(times = fopen(times_file, "w"))) die("%s: %s", times_file, strerror(errno));
  clients = calloc(num_clients, sizeof *clients);
  poller = epoll_create1(EPOLL_CLOEXEC);
  timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
  epoll_ctl(poller, EPOLL_CTL_ADD, timer, &event);
  for (int i = 0; i < num_clients; i++) open_connection(&clients[i]); /* Retried with the first request. */
  double t = now(), began = t, own = 0;
  next_due = t;
  start = t + (max_requests ? 0 : warmup);
  end = max_requests ? NEVER : start + seconds;
  while (!closed || num_open) { /* Waits for all replies, so that the server is idle at the end. */
    t = now();
    if (!opened && t >= start) {
      if (too_few(num_good, num_clients, began + MAX_STRETCH * fmax(warmup, 1))) start = t + POLL_SECONDS;
      else { opened = t; own = cpu(); print_mark("start"); }
      if (!max_requests) end = start + seconds;
    }
    double wake = dispatch(t);
    if (!closed && (max_requests ? num_sent >= max_requests && !num_open : t >= end)) {
      if (too_few(num_latencies, 2 * num_clients, opened + MAX_STRETCH * seconds)) end = t + POLL_SECONDS;
      else { closed = t; own = cpu() - own; print_mark("end"); count_unsent(); }
    } else if (!closed || num_open) {
      if (num_errors > 100 && !num_good) die("over 100 requests failed, and none succeeded");
      wait_until(wake);
    }
  }
  report(rate > 0 && !max_requests ? seconds : closed - opened, own);
  if (replies_file) write_replies();
  return 0;
}
