"""The options of programs that start another program, or run a text."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

__all__ = ["Launcher", "launcher_of"]

Meaning = Literal["text", "attached text", "deciding", "valued", "flag", "unknown"]


class Launcher(NamedTuple):
    """The known options of such a program."""

    deciding: frozenset[str] = frozenset()
    """options whose value, the next word, determines what runs"""
    valued: frozenset[str] = frozenset()
    """other options with a value"""
    flags: str = ""
    """letters of options without a value"""
    long_flags: frozenset[str] = frozenset()
    attached: str = ""
    """letters of options whose value, if any, is in the same word"""
    text: str = ""
    """letters of options whose value is a text that runs"""
    long_texts: frozenset[str] = frozenset()
    places: int = 0
    """words between the options and the program"""
    fixed_places: bool = True
    runs_scripts: bool = False
    """after the options comes a script; without one, it is read from the input"""
    is_text_first: bool = False
    """that script is itself the text"""
    ends_options: bool = True
    """whether words after a text are arguments, whatever their first character"""
    is_shell: bool = False
    all_decide: bool = False
    """whether every word may determine what runs"""
    joins: bool = False
    """whether a shell reads the program and its arguments as one text"""
    subcommands: frozenset[str] = frozenset()

    def is_option(self, word: str) -> bool:
        return word.startswith(("-", "+")) and (word != "-" or "-" in self.long_flags)

    def means(self, option: str) -> Meaning:
        """The effect of an option on the next word, if known."""
        for words, meaning in self._exact():
            if option in words:
                return meaning
        if "=" in option and option.startswith("--"):
            return "flag"  # it has its value
        if option.startswith("--"):
            return "unknown"
        if self.is_shell and option.startswith("+"):
            return "flag"
        return self._letters(option[1:])

    def _exact(self) -> tuple[tuple[frozenset[str], Meaning], ...]:
        return (
            (self.long_texts, "text"),
            (self.deciding, "deciding"),
            (self.valued, "valued"),
            (self.long_flags, "flag"),
        )

    def _letters(self, letters: str) -> Meaning:
        """-ec: options with one letter, of which the last may have a value."""
        if self.is_shell and "c" in letters:
            return "text"
        for place, letter in enumerate(letters):
            is_last = place == len(letters) - 1
            if letter in self.text:
                return "text" if is_last else "attached text"
            if f"-{letter}" in self.deciding:
                return "deciding" if is_last else "flag"
            if f"-{letter}" in self.valued:
                return "valued" if is_last else "flag"
            if letter in self.attached:
                return "flag"
            if letter not in self.flags and not letter.isdigit():
                return "unknown"
        return "flag"


def launcher_of(name: str) -> Launcher | None:
    """The launcher of this name; None for a program whose arguments are data."""
    return _PYTHON_LAUNCHER if _PYTHON.fullmatch(name) else _LAUNCHERS.get(name)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_PYTHON: Final = re.compile(r"(python|pypy)[0-9.]*")
_PYTHON_LAUNCHER: Final = Launcher(
    _set("-W -X"),
    _set("--check-hash-based-pycs"),
    "bBdEhiIOPqRsStuvVx",
    text="cm",
    runs_scripts=True,
)
_SHELL: Final = Launcher(
    _set("--rcfile --init-file"),
    _set("-o -O +o +O"),
    "abefhiklmnprstuvxBCDEHPT",
    _set("--login --norc --noprofile --posix --restricted --verbose --noediting"),
    text="c",
    long_texts=_set("--command"),
    runs_scripts=True,
    is_shell=True,
)
_AWK: Final = Launcher(
    _set("-f --file -i --include -l --load -E --exec"),
    _set("-F -v --field-separator --assign"),
    "bcCdghLMnNOPrsStV",
    _set("--posix --re-interval --sandbox --csv --traditional --lint"),
    text="e",
    long_texts=_set("--source"),
    runs_scripts=True,
    is_text_first=True,
    ends_options=False,
)
_SCRIPTED: Final = Launcher(runs_scripts=True, ends_options=False)
_POWERSHELL: Final = Launcher(
    long_flags=_set("-NoProfile -NonInteractive -NoLogo -nop -noni -nol"),
    valued=_set("-ExecutionPolicy -ep -ex"),
    long_texts=_set("-File -file -f"),
    runs_scripts=True,
)
_NODE: Final = _SCRIPTED._replace(
    deciding=_set("-r --require --import --loader --experimental-loader -C --conditions"),
    flags="chiv",
    long_flags=_set("--no-warnings --enable-source-maps --trace-warnings --check --interactive")
    | _set("--allow-all --allow-net --allow-read --allow-env --allow-write --quiet -q -A"),
    text="ep",
    long_texts=_set("--eval --print"),
)
_USER: Final = Launcher(places=1)
_LAUNCHERS: Final[dict[str, Launcher]] = {
    **dict.fromkeys(_set("sh ash bash dash ksh mksh zsh fish"), _SHELL),
    **dict.fromkeys(_set("awk gawk mawk nawk original-awk"), _AWK),
    **dict.fromkeys(_set("node nodejs"), _NODE),
    **dict.fromkeys(
        _set("deno bun"),
        _NODE._replace(subcommands=_set("run eval exec x task test repl")),
    ),
    "perl": _SCRIPTED._replace(
        deciding=_set("-I"), flags="acfhlnpsStTuUvwWX", attached="iMmDCFVxd", text="eE"
    ),
    "ruby": _SCRIPTED._replace(
        deciding=_set("-I -r -C -E"), flags="acdhlnpsSvwy", attached="iTWxFK", text="e"
    ),
    "lua": _SCRIPTED._replace(deciding=_set("-l"), flags="iEvW", text="e"),
    "php": _SCRIPTED._replace(
        deciding=_set("-c -d -f -z -S -t"),
        flags="aCHhilmnqsvw",
        text="rBRE",
        long_texts=_set("--run"),
    ),
    "Rscript": _SCRIPTED._replace(
        long_flags=_set("--vanilla --verbose --no-save --no-restore --slave --no-init-file"),
        text="e",
    ),
    **dict.fromkeys(_set("pwsh powershell"), _POWERSHELL),
    **dict.fromkeys(
        _set("eval trap alias coproc enable hash complete compgen bind su parallel"),
        Launcher(all_decide=True),
    ),
    **dict.fromkeys(_set("nohup builtin source . busybox fakeroot"), Launcher()),
    **dict.fromkeys(_set("npx uvx bunx"), Launcher(flags="y", long_flags=_set("--yes --quiet"))),
    **dict.fromkeys(
        _set("uv poetry pipenv hatch conda"),
        Launcher(
            valued=_set("-p --with --python --project --directory -n --name"),
            flags="qv",
            subcommands=_set("run"),
        ),
    ),
    "exec": Launcher(valued=_set("-a"), flags="cl"),
    "command": Launcher(flags="p"),
    "setsid": Launcher(flags="cfw", long_flags=_set("--ctty --fork --wait")),
    "tini": Launcher(valued=_set("-p -e"), flags="sgvw"),
    "dumb-init": Launcher(
        valued=_set("-r --rewrite"), flags="cv", long_flags=_set("--single-child")
    ),
    "unbuffer": Launcher(flags="p"),
    "watch": Launcher(
        valued=_set("-n --interval -q --equexit"),
        flags="bcdegtwx",
        long_flags=_set("--differences --errexit --chgexit --no-title --exec --color"),
        joins=True,
    ),
    "unshare": Launcher(
        _set("-R --root -w --wd"),
        _set("-S --setuid -G --setgid --propagation"),
        "mupinUCTfrc",
        _set("--mount --uts --pid --ipc --net --user --cgroup --fork --map-root-user"),
    ),
    "setpriv": Launcher(
        valued=_set(
            "--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits"
        )
        | _set("--pdeathsig --selinux-label --apparmor-profile"),
        long_flags=_set(
            "--clear-groups --keep-groups --init-groups --no-new-privs --nnp --reset-env"
        ),
    ),
    "nsenter": Launcher(
        valued=_set("-t --target -S --setuid -G --setgid"),
        flags="amuinpUCTFeZ",
        attached="rw",
        long_flags=_set("--all --mount --uts --ipc --net --pid --user --cgroup --no-fork"),
    ),
    "systemd-run": Launcher(
        _set("--working-directory"),
        _set("-p --property -u --unit --slice -E --setenv -M --machine -H --host --uid --gid")
        | _set("--nice --description --service-type --on-active --on-calendar"),
        "tPqrGdS",
        _set("--pty --pipe --quiet --user --system --scope --remain-after-exit --collect --wait")
        | _set("--no-block --same-dir --no-ask-password --send-sighup"),
    ),
    "chrt": Launcher(
        valued=_set("-T -P -D --sched-runtime --sched-period --sched-deadline"),
        flags="abdfimorRv",
        long_flags=_set(
            "--fifo --rr --batch --idle --other --deadline --all-tasks --reset-on-fork"
        ),
        places=1,
    ),
    "env": Launcher(
        _set("-C -S --chdir --split-string"),
        _set("-u --unset"),
        "i0v",
        _set("- --ignore-environment --null --debug"),
    ),
    "sudo": Launcher(
        _set("-D -R --chdir --chroot"),
        _set("-u -g -p -C -r -t -T -U -h --user --group --prompt --close-from --role --type")
        | _set("--command-timeout --other-user --host"),
        "AbBEHiKklnPSsVv",
        _set("--preserve-env --set-home --non-interactive --stdin --background --login --shell"),
    ),
    "doas": Launcher(_set("-C"), _set("-u -a"), "Lns"),
    "runuser": Launcher(
        _set("-s --shell"),
        _set("-u --user -g --group -G --supp-group -w --whitelist-environment"),
        "flmpP",
        _set("--login --fast --preserve-environment --pty"),
        text="c",
        long_texts=_set("--command --session-command"),
        is_shell=True,
    ),
    **dict.fromkeys(_set("gosu su-exec"), _USER),
    "taskset": Launcher(flags="acp", long_flags=_set("--all-tasks --cpu-list"), places=1),
    "numactl": Launcher(
        valued=_set("-i -N -m -C -p -l -P -w --interleave --cpunodebind --membind --physcpubind")
        | _set("--preferred"),
        flags="aHs",
        long_flags=_set("--all --localalloc"),
    ),
    "nice": Launcher(valued=_set("-n --adjustment")),
    "ionice": Launcher(
        valued=_set("-c -n --class --classdata"), flags="t", long_flags=_set("--ignore")
    ),
    "timeout": Launcher(
        valued=_set("-k -s --kill-after --signal"),
        flags="fpv",
        long_flags=_set("--foreground --preserve-status --verbose"),
        places=1,
        fixed_places=False,
    ),
    "stdbuf": Launcher(valued=_set("-i -o -e --input --output --error")),
    "time": Launcher(
        valued=_set("-f -o --format --output"),
        flags="apqv",
        long_flags=_set("--append --portability --quiet --verbose"),
    ),
    "chroot": Launcher(
        valued=_set("--userspec --groups"), long_flags=_set("--skip-chdir"), places=1
    ),
    "flock": Launcher(
        valued=_set("-w -E --timeout --wait --conflict-exit-code"),
        flags="enosuxF",
        long_flags=_set(
            "--exclusive --nonblock --nb --shared --unlock --close --no-fork --verbose"
        ),
        text="c",
        long_texts=_set("--command"),
        places=1,
        is_shell=True,
    ),
    "xargs": Launcher(
        valued=_set("-a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-procs")
        | _set("--max-chars --max-lines"),
        flags="0rtpxo",
        long_flags=_set("--null --no-run-if-empty --verbose --interactive --exit --replace"),
        attached="iel",
    ),
    "ssh": Launcher(
        _set("-F -o -S -I -O -Q"),
        _set("-b -B -c -i -J -l -L -p -P -R -D -W -w -m -e -E"),
        "46AaCfGgKkMNnqsTtVvXxYy",
        places=1,
        joins=True,
    ),
    "strace": Launcher(
        valued=_set("-e -o -s -u -E -a -p -P -I -O -S -b -X"), flags="cCdDfFhiknqrtTvVwxyYzZ"
    ),
}
