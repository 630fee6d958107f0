"""Continuous batching. Requests arrive at any time, enter the batch when there is room, and leave it when they end.

No context is computed twice. A *row* is a response that is being decoded, one token per pass. A *prefill* is a context
that is being read.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum, auto

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.engine.decode_batch import DecodeBatch
from hocket.engine.decoding import Responses
from hocket.engine.drafts import Drafts
from hocket.engine.paged_model import ForwardBatch, PagedCache, SamplingCounts, bucket
from hocket.engine.pages import NEVER, PAGE, KnownPrefix, PageNode, Pages, Tokens
from hocket.engine.prefill import Context, Prefill
from hocket.engine.requests import Request
from hocket.engine.token_sampler import TokenSampler

PREFILL_TOKENS = 2048
"""The largest number of context tokens that one pass reads."""
DRAFT_TOKENS = 256
"""Drafted tokens of a pass on an accelerator, which waits for the weights until it has some hundred tokens."""
PRUNED_FROM = 16
"""Once the pool holds 1 / PRUNED_FROM of all pages, pages of ended conversations are freed before new ones are made."""
LEAST_SAVED = 8
"""A context waits for another one that is being read if that saves at least this many tokens."""


class Admission(Enum):
    """The result of admitting a request: it entered, it waits for another context, or there are no free pages."""

    DONE = auto()
    LATER = auto()
    FULL = auto()


class Scheduler:
    """Answers requests in order of arrival, at most `most` at a time.

    Args:
        cache: the model, and the keys and values that it has computed.
        written: stores the responses, and numbers the requests.
        counts: counters that every pass updates.
        most: the largest number of rows.
        drafts: the most tokens that are drafted for a row; where layers have a state, none are.
    """

    def __init__(
        self, cache: PagedCache, written: Responses, counts: SamplingCounts, most: int, drafts: int = 0
    ) -> None:
        self._cache, self._pool, self._tree, self._states = cache, cache.pool, cache.tree, cache.states
        if self._states is not None:
            self._states.reclaim()
        self._written, self._counts = written, counts
        self._most = most
        self._asked_of: dict[int, tuple[Request, int]] = {}
        self._order: dict[int, int] = {}
        self._came = 0
        self._leaving: set[int] = set()
        self._drafts = Drafts(0 if self._states is not None else drafts)
        self._drafted: list[list[int]] = []
        self._forward_batch = ForwardBatch(PREFILL_TOKENS, 0, 0)
        self._rows = DecodeBatch(self._forward_batch.table)
        self._sampler = TokenSampler(written, cache.kernels, cache.model.vocabulary, cache.model.device)
        self._waiting: list[int] = []
        self._asked: Counter[Context] = Counter()
        self._known: dict[Context, Tensor] = {}
        self._prefills: list[Prefill] = []
        self._open: dict[Context, Prefill] = {}
        self._copies: list[tuple[int, int]] = []
        self._entering = self._budget = 0
        self._full = False

    @property
    def busy(self) -> bool:
        """Whether there are unanswered requests."""
        return bool(self._asked_of)

    def check(self, request: Request, limit: int) -> None:
        """Refuses a request that does not fit into memory.

        Raises:
            ConfigurationError: when a context with a response of up to `limit` tokens needs more pages than there are.
        """
        longest = len(request.tokens) + limit
        # One page more than a row needs, because a page is copied before the source is released.
        if longest // PAGE + 2 > self._pool.most:
            raise ConfigurationError(
                f"a sequence of up to {longest} tokens does not fit into the {self._pool.most} pages of {PAGE} tokens "
                f"that the engine may keep, which serve one of {max(0, PAGE * (self._pool.most - 1) - 1)}; raise its "
                "max_bytes or lower max_tokens"
            )

    def add(self, request: Request, limit: int, owner: int = 0) -> int:
        """Queues a request and returns its number.

        Args:
            request: a request that `check` accepts.
            limit: the largest number of response tokens.
            owner: the number of the policy that answers, if the model serves several.
        """
        number = self._written.add(request, limit)
        self._asked_of[number] = request, owner
        self._order[number] = self._came
        self._came += 1
        self._sampler.add(number, request)
        self._waiting.append(number)
        self._asked[self._context(number)] += 1
        self._make_room(len(request.tokens) + limit)
        return number

    def drop(self, numbers: Iterable[int]) -> None:
        """Forgets requests, answered or not. Their keys and values stay in the prefix tree."""
        self._leaving.update(numbers)
        self._forget_leaving()

    def _forget_leaving(self) -> None:
        """Forgets leaving requests, except those whose context is still being read: they become rows first."""
        held = {number for prefill in self._prefills for number in prefill.members}
        gone = self._leaving - held
        if not gone:
            return
        self._leaving &= held
        rows = self._rows
        leaving = np.isin(rows.request[: rows.count], list(gone))
        if leaving.any():
            self._leave(leaving)
        for number in gone:
            if number in self._waiting:
                self._waiting.remove(number)
                self._ask_less(self._context(number))
            del self._asked_of[number], self._order[number]
            self._sampler.drop(number)
            self._written.drop(number)

    def _leave(self, leaving: NDArray[np.bool_]) -> None:
        """Removes rows from the batch."""
        for row in np.flatnonzero(leaving).tolist():
            self._adopt(row)
        self._arrange(np.flatnonzero(~leaving))
        self._full = False

    def pin(self, number: int) -> PageNode:
        """The node where a request and its response end in the prefix tree; see `hocket.engine.pages.PageTree.pin`."""
        owner, tokens = self._context(number)
        return self._tree.pin(tokens[:-1], owner)

    def unpin(self, node: PageNode) -> None:
        """Removes a pin."""
        self._tree.unpin(node)

    def step(self) -> list[int]:
        """Runs one pass. Every row gets one token, contexts are read, and requests with a complete context become rows.

        Returns the numbers of the requests that this pass answered. Call `drop` after taking their responses.
        """
        try:
            return self._step()
        except BaseException:
            # The tree may list pages that this pass would have written.
            self._cache.forget()
            raise

    def _make_room(self, longest: int) -> None:
        """Makes room for one more row, and for rows of this length."""
        self._cache.model.reach(longest)
        rows, table = min(len(self._asked_of), self._most), self._forward_batch.table
        width = longest // PAGE + 1
        if rows <= len(table) and width <= table.shape[1]:
            return
        rows = min(max(rows, 2 * len(table)), self._most) if rows > len(table) else len(table)
        tokens = PREFILL_TOKENS + rows * (1 + self._drafts.most)
        self._forward_batch = ForwardBatch(tokens, rows, max(width, table.shape[1]))
        self._rows = self._rows.moved(self._forward_batch.table)

    def _step(self) -> list[int]:
        self._cache.now += 1
        if self._leaving:
            self._forget_leaving()
        rows, batch = self._rows, self._forward_batch
        self._take_pages()
        self._drafted = self._draft()
        live = slice(rows.count)
        batch.begin(rows.token[live], rows.position[live], rows.owner[live], rows.state[live], self._drafted)
        if self._waiting or self._prefills:
            self._admit()
            self._copy(self._copies)
            for source, _ in self._copies:  # Separately, because a page may be copied several times.
                self._pool.release([source])
            self._copies = []
        finished = [prefill for prefill in self._prefills if prefill.finished]
        first = batch.run_start[: rows.count].copy()
        every = self._logits(finished)
        logits = every[torch.from_numpy(first).to(every.device)] if any(self._drafted) else every
        rows.position[: rows.count] += 1
        for prefill in self._prefills:
            if prefill.fork and prefill.done == prefill.fork:
                self._keep_state(prefill)
                prefill.fork = 0
        if finished:
            logits = self._become_rows(finished, logits)
        answered = self._draw(logits, every, first) if rows.count else []
        if finished:
            self._arrange(rows.siblings())
        return answered

    def _logits(self, finished: list[Prefill]) -> Tensor:
        """Runs the model. Returns the logits of the rows' tokens, and stores those of prefills that this pass ends."""
        batch, count = self._forward_batch, self._rows.count
        read_by_rows = int(batch.run_start[count])
        if not batch.tokens:
            return torch.zeros(0, self._cache.model.vocabulary, device=self._cache.model.device)
        self._counts.passes += 1
        self._counts.rows += count
        self._counts.places += bucket(read_by_rows) if count else 0
        self._counts.drafted += read_by_rows - count
        wanted = None
        read = [prefill for prefill in finished if prefill.logits is None]
        if batch.rows > count:
            places = [*range(read_by_rows), *(prefill.last for prefill in read)]
            wanted = torch.tensor(places + [0] * (bucket(len(places)) - len(places)))
        logits = self._cache.model.logits(batch, self._pool, wanted, self._cache.activations, self._states)
        for number, prefill in enumerate(read, read_by_rows):
            prefill.logits = logits[number]
        return logits[:read_by_rows]

    def _draft(self) -> list[list[int]]:
        """What may come next in each row, as far as its last page has room; nothing without drafts.

        A pass reads as many more tokens as cost nothing: on a processor those that fill up its bucket.
        """
        rows = self._rows
        if not self._drafts.most or not rows.count:
            return []
        more = bucket(rows.count) - rows.count if self._cache.model.device.type == "cpu" else DRAFT_TOKENS
        position, numbers = rows.position[: rows.count], rows.request[: rows.count]
        room = np.minimum(PAGE - 1 - position % PAGE, self._written.left(numbers) - 1)
        drafts = []
        for number, most in zip(numbers.tolist(), room.tolist(), strict=True):
            drafts.append(self._drafts.of(number, min(most, more)))
            more -= len(drafts[-1])
        return drafts

    def _draw(self, logits: Tensor, every: Tensor, first: NDArray[np.int32]) -> list[int]:
        """Draws a token for every row and removes completed rows. Returns the numbers of the answered requests.

        A row whose drafted token is drawn goes on with its next logits, which are among `every` from `first` on.
        """
        rows = self._rows
        going, ended = np.arange(rows.count), np.zeros(rows.count, np.bool_)
        for place in range(1, self._drafts.most + 2):
            numbers = rows.request[going]
            self._written.tell(numbers, logits)
            token, logp = self._sampler(logits)
            self._counts.decoded += len(token)
            ended[going] = self._written.record(numbers, token, logp)
            rows.token[going] = token
            if not self._drafts.most:
                break
            self._drafts.add(numbers.tolist(), token.tolist())
            going = np.array([row for row in going.tolist() if not ended[row] and self._accepts(row, place)], np.int64)
            if not len(going):
                break
            self._counts.accepted += len(going)
            rows.position[going] += 1
            logits = every[torch.from_numpy(first[going] + place).to(every.device)]
            self._sampler.arrange(rows.request[going])
        if self._drafts.most:
            self._sampler.arrange(rows.request[: rows.count])
        if not ended.any():
            return []
        answered: list[int] = rows.request[: rows.count][ended].tolist()
        self._leave(ended)
        return answered

    def _accepts(self, row: int, place: int) -> bool:
        """Whether the token at `place` of a row's draft, counted from 1, is the one that was drawn."""
        draft = self._drafted[row] if row < len(self._drafted) else []
        return place <= len(draft) and draft[place - 1] == int(self._rows.token[row])

    def _arrange(self, order: NDArray[np.int64]) -> None:
        self._rows.arrange(order)
        self._sampler.arrange(self._rows.request[: self._rows.count])

    # ------------------------------------------------------------ pages

    def _take(self, count: int, spare: int = 0) -> Pages | None:
        """Takes pages if `spare` others remain, evicting cached ones if necessary; None if there are not enough."""
        if count > self._pool.free and self._pool.size >= self._pool.most // PRUNED_FROM:
            self._tree.prune(max(count - self._pool.free, self._pool.size // 16))
        short = count + spare - self._pool.available
        if short > 0:
            self._counts.evicted += self._tree.evict(max(short, self._pool.most // 16))
        return None if count + spare > self._pool.available else self._pool.take(count)

    def _take_pages(self) -> None:
        """Gives a page to every row whose pages are full. If there are too few, the latest requests wait again."""
        rows = self._rows
        while True:
            position = rows.position[: rows.count]
            full = np.flatnonzero(position % PAGE == 0)
            if not len(full):
                return
            pages = self._take(len(full))
            if pages is not None:
                rows.table[full, position[full] // PAGE] = pages
                return
            latest = [self._order[number] for number in rows.request[: rows.count].tolist()]
            self._send_back(latest.index(max(latest)))

    def _send_back(self, row: int) -> None:
        """Moves a row back to the queue. Its tokens so far become part of its context."""
        number = int(self._rows.request[row])
        self._adopt(row)
        self._arrange(np.delete(np.arange(self._rows.count), row))
        insort(self._waiting, number, key=self._order.__getitem__)
        self._asked[self._context(number)] += 1
        self._counts.preempted += 1

    def _adopt(self, row: int) -> None:
        """Hands a row's pages over to the prefix tree, and its state to the cache of states."""
        number, fed = int(self._rows.request[row]), int(self._rows.position[row])
        pages = self._rows.pages(row)
        if self._drafts.most:
            self._drafts.drop(number)
        owner, tokens = self._context(number)
        if self._cache.activations is not None:
            self._cache.activations.remember(tokens[:fed], self._pool.record[pages].reshape(-1)[:fed])
        self._tree.insert(tokens[:fed], pages, self._cache.now, owner)
        self._pool.release(pages)
        if self._states is not None:
            self._states.keep(owner, tokens[:fed], int(self._rows.state[row]))

    def _copy(self, pairs: list[tuple[int, int]]) -> None:
        if pairs:
            self._pool.copy([source for source, _ in pairs], [target for _, target in pairs])

    def _context(self, number: int) -> Context:
        """The policy and tokens that determine a request's next token."""
        request, owner = self._asked_of[number]
        tokens, length = request.tokens, int(self._written.length[number])
        if length:
            tokens += tuple(self._written.tokens[number, :length].tolist())
        return owner, tokens

    # ------------------------------------------------------------ admission

    def _admit(self) -> None:
        """Plans the contexts that this pass reads."""
        self._budget = PREFILL_TOKENS
        for prefill in self._prefills:
            self._plan(prefill)
        if self._full and (self._rows.count or self._prefills):
            return
        self._full = False
        entered, later = set[int](), 0
        for number in self._waiting:
            if self._rows.count + self._entering >= self._most or self._budget <= 0 or later >= self._most:
                break
            admission = self._enter(number)
            if admission is Admission.FULL:
                self._full = True
                break
            if admission is Admission.LATER:
                later += 1
            else:
                entered.add(number)
        if entered:
            self._waiting = [number for number in self._waiting if number not in entered]

    def _enter(self, number: int) -> Admission:
        context = self._context(number)
        prefill = self._open.get(context)
        outcome = self._begin(number, context) if prefill is None else self._join(number, prefill)
        if outcome is Admission.DONE:
            self._entering += 1
            self._ask_less(context)
        return outcome

    def _ask_less(self, context: Context) -> None:
        """Counts one waiting request less for this context."""
        self._asked[context] -= 1
        if not self._asked[context]:
            del self._asked[context]
            self._known.pop(context, None)

    def _join(self, number: int, prefill: Prefill) -> Admission:
        """Adds a request to a prefill of the same context."""
        state = self._take_state()
        if state is None:
            return Admission.FULL
        if len(prefill.tokens) % PAGE:
            page = self._take(1, self._spare)
            if page is None:
                self._release_state(state)
                return Admission.FULL
            prefill.parts.append(int(page[0]))
        prefill.states.append(state)
        prefill.members.append(number)
        self._counts.reused += len(prefill.tokens)
        return Admission.DONE

    def _begin(self, number: int, context: Context) -> Admission:
        """Begins a prefill after the part of the context that is in the prefix tree."""
        owner, tokens = context
        logits, state = self._known.get(context), self._take_state()
        if state is None:
            return Admission.FULL
        # Without known logits the last token must be read.
        prefix = self._find(owner, tokens if logits is not None else tokens[:-1], state)
        if logits is not None and prefix.usable < len(tokens):
            logits, prefix = None, self._find(owner, tokens[:-1], state)
        saved = prefix.promised - prefix.usable >= LEAST_SAVED
        if saved and (self._states is None or self._forks(owner, tokens, prefix.usable)):
            self._release_state(state)
            return Admission.LATER
        held = prefix.pages if prefix.source < 0 else [*prefix.pages, prefix.source]
        self._pool.hold(held)
        taken = self._take(-(-len(tokens) // PAGE) - len(prefix.pages), self._spare)
        if taken is None:
            self._pool.release(held)
            self._release_state(state)
            return Admission.FULL
        if prefix.source >= 0:
            self._copies.append((prefix.source, int(taken[0])))
        prefill = Prefill(owner, tokens, [*prefix.pages, *taken.tolist()], prefix.usable, [number], logits, state=state)
        prefill.fork = prefix.promised if saved else 0
        if logits is None:
            prefill.nodes = self._tree.insert(tokens, prefill.pages, NEVER, owner)
        self._counts.reused += prefix.usable
        self._prefills.append(prefill)
        self._open[context] = prefill
        self._plan(prefill)
        return Admission.DONE

    def _find(self, owner: int, tokens: Tokens, state: int) -> KnownPrefix:
        """The longest prefix of `tokens` that a context can continue; its state, if there is one, is copied to a slot.

        With states that is one of those in the cache, and pages promise where another one is worth keeping.
        """
        clock = self._cache.now
        longest = self._tree.find(tokens, clock, owner)
        if self._states is None:
            return longest
        for length, slot in self._states.find(owner, tokens):
            prefix = self._tree.find(tokens[:length], clock, owner)
            if prefix.usable == length:
                self._states.use(owner, tokens[:length])
                self._states.copy(slot, state)
                return replace(prefix, promised=max(length, longest.promised))
        return KnownPrefix([], 0, -1, longest.promised)

    def _forks(self, owner: int, tokens: Tokens, usable: int) -> bool:
        """Whether a context that is being read will leave a state that saves these tokens much."""
        marked = (other for other in self._prefills if other.fork >= usable + LEAST_SAVED and other.owner == owner)
        return any(other.tokens[: other.fork] == tokens[: other.fork] for other in marked)

    def _take_state(self) -> int | None:
        """A slot for a state; 0 where no layer has one, None if all are taken."""
        return 0 if self._states is None else self._states.take()

    def _release_state(self, state: int) -> None:
        if self._states is not None:
            self._states.release([state])

    @property
    def _spare(self) -> int:
        """The number of pages that rows may need next."""
        return self._rows.count + self._entering

    def _plan(self, prefill: Prefill) -> None:
        """Adds to this pass as much of a context as the budget allows."""
        count = min(self._budget, (prefill.fork or len(prefill.tokens)) - prefill.done)
        if not count:
            return
        start, prefill.done = prefill.done, prefill.done + count
        self._forward_batch.add(
            prefill.tokens[start : prefill.done], start, prefill.pages, prefill.owner, prefill.state
        )
        prefill.last = self._forward_batch.tokens - 1
        self._budget -= count
        self._counts.computed += count
        while prefill.nodes and prefill.nodes[0].end <= prefill.done:
            prefill.nodes.pop(0).ready = self._cache.now

    def _become_rows(self, finished: list[Prefill], logits: Tensor) -> Tensor:
        """Turns completed prefills into rows. Returns the logits of all rows."""
        copies: list[tuple[int, int]] = []
        parts = [logits]
        for prefill in finished:
            assert prefill.logits is not None
            del self._open[prefill.context]
            owner, length, members = prefill.owner, len(prefill.tokens), prefill.members
            full_pages = prefill.pages[: length // PAGE]
            self._rows.add(members[0], owner, length, prefill.pages, prefill.state)
            self._spread_state(prefill)
            for place, number in enumerate(members[1:]):
                self._pool.hold(full_pages)
                partial = prefill.parts[place : place + 1]
                copies += [(prefill.pages[-1], page) for page in partial]
                self._rows.add(number, owner, length, [*full_pages, *partial], prefill.states[place])
            parts.append(prefill.logits.expand(len(members), -1))
            if self._drafts.most:
                for number in members:
                    self._drafts.begin(number, prefill.tokens)
            self._entering -= len(members)
            if self._asked[prefill.context]:
                self._known[prefill.context] = prefill.logits.clone()
        self._copy(copies)
        self._prefills = [prefill for prefill in self._prefills if not prefill.finished]
        self._sampler.arrange(self._rows.request[: self._rows.count])
        return torch.cat(parts)

    def _spread_state(self, prefill: Prefill) -> None:
        """Copies the state of a context to its members, and to the cache if requests with it are still waiting."""
        if self._states is None:
            return
        for slot in prefill.states:
            self._states.copy(prefill.state, slot)
        if self._asked[prefill.context]:
            self._keep_state(prefill)

    def _keep_state(self, prefill: Prefill) -> None:
        """Copies the state of what has been read of a context to the cache, if there is room."""
        slot = None if self._states is None else self._states.take()
        if self._states is not None and slot is not None:
            self._states.copy(prefill.state, slot)
            self._states.keep(prefill.owner, prefill.tokens[: prefill.done], slot)
