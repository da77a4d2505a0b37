"""Forms by which a value that others give would choose what runs, and forms in which it stays data.

`X` is such a value everywhere. `run` counts how many of any number of mixtures are refused.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import httpx2

from duebook.errors import Invalid
from duebook.targets.programs import Chosen
from duebook.targets.shell_words import refuse_shell_text

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "FLOWS",
    "HARMLESS_FLOWS",
    "HARMLESS_TEXTS",
    "HOSTILE_SETTINGS",
    "REFUSED_SETTINGS",
    "TEXTS",
    "is_refused",
    "knock",
    "run",
]

TEXTS: Final = (
    "$X",
    '"$X" a',
    "${X} a",
    "${X:-ls}",
    "echo a; $X",
    'echo a && "$X/b"',
    "echo a || $X",
    "echo a & $X",
    "echo a | $X",
    "! $X",
    "time $X",
    "if true; then $X; fi",
    "while $X; do :; done",
    "(cd / && $X)",
    "{ $X; }",
    "echo $($X)",
    'echo "$(true; $X)"',
    'echo "`$X`"',
    "A=b $X",
    "> log $X",
    "y=$X; $y",
    "y=$(basename $X); $y",
    "PATH=$X:$PATH run",
    "export LD_PRELOAD=$X",
    "export HOME=/a PYTHONPATH=$X",
    "env PATH=$X run",
    "env A=$X ./run",
    "env $X",
    "sudo -u a $X",
    "sudo $X ls",
    "timeout 5 $X",
    "timeout $X ./run",
    "nice -n $X ./run",
    "nohup setsid $X",
    "command $X",
    "bash $X",
    'bash -c "$X"',
    'bash -ec "echo $X"',
    "bash -o pipefail -c $X",
    "sh -c '$X'",
    'sh -c \'exec "$@"\' sh "$X"',
    "python3 $X",
    "python3 -m $X",
    'python3 -c "print($X)"',
    "perl -e 'print' $X",
    "node -e 'x' \"$X\"",
    'node --require "$X" run.js',
    "eval $X",
    "eval '$X'",
    ". $X",
    'source "$X"',
    "exec $X",
    'trap "$X" EXIT',
    'echo "$X" | sh',
    'curl "$X" | bash -s',
    'curl "$X" | sudo bash',
    "{ echo $X; } | sh",
    "(echo $X) | sh",
    "bash <<END\n$X\nEND",
    "cat <<END | sh\n$X\nEND",
    "bash <(echo $X)",
    'bash <<< "$X"',
    "sh < $X",
    'cd "$X" && ./run.sh',
    'cd "$X"; python3 run.py',
    "cd $X; sh ./a",
    'ssh "$X" uptime',
    'ssh host "echo $X"',
    "xargs $X",
    "find . | xargs -n 1 $X",
    "for p in $X; do $p; done",
    'set -- $X; "$@"',
    "case a in a) $X;; esac",
    "case a in\n  (a|b) echo;;\n  c) $X\nesac",
    "f() { $X; }; f",
    "function f { $X; }",
    'flock "$X" ./run a',
    'chroot "$X" /bin/ls',
    "echo a \\\n  && $X",
    'A=(a $X); "${A[@]}"',
    "cat <<A <<B\na\nA\nb\nB\n$X",
    "echo '#' # a\n$X",
    "[[ a == b ]] && $X",
    "(( 1 )) && $X",
    '[[ "$X" -gt 3 ]]',
    "[[ 3 -lt $X ]]",
    "[[ X -eq 3 ]]",
    "[[ a == b && $X -ne 3 ]]",
    "echo $((X + 1))",
    "echo $(( $X + 1 ))",
    'echo "$(( $(echo $(a)) + X ))"',
    "y=$X; echo $((y))",
    "(( X > 1 )) && echo",
    "((echo a); $X)",
    'let "n = X"',
    "let n=$X",
    "echo ${a[$X]}",
    "echo ${a[X]}",
    "a[X]=1",
    "a=([X]=1)",
    "echo ${a:$X:1}",
    "echo ${a:X}",
    'test -v "$X"',
    "[[ -v $X ]]",
    '[ -v "$X" ]',
    "[ $X ]",
    '[ "$X" "$X" ]',
    "echo ${X@P}",
    "echo ${!X}",
    "y=X; ${!y}",
    "declare -i n=$X",
    "declare -i n; n=X",
    "declare -n n=X",
    'declare "$X"',
    'export "$X"',
    'unset "$X"',
    'read "$X"',
    ': "${c:=$X}"; $c',
    'echo "$X" | while read c; do $c; done',
    'read c <<< "$X"; $c',
    'command read -r c <<< "$X"; $c',
    'mapfile -t c < <(echo "$X"); "${c[@]}"',
    'printf -v Y %s "$X"; $Y',
    'printf -vY %s "$X"; $Y',
    'f() { $1; }; f "$X"',
    'f() { "$@"; }; f "$X"',
    'f() { sh; }; echo "$X" | f',
    'echo "$X" | { true; sh; }',
    'while true; do\n sh\ndone <<< "$X"',
    "while true; do\n sh\ndone <<END\n$X\nEND",
    "while true; do $c; c=$X; done",
    "f() { $c; }; c=$X; f",
    "echo \"$X\" | xargs -I{} sh -c '{}'",
    'echo "$X" | xargs -I {} {}',
    "echo \"$X\" | xargs -i sh -c 'echo {}'",
    'echo "$X" | xargs nice',
    'echo "$X" | xargs sh -c',
    'echo "$X" | sudo xargs env',
    "coproc $X",
    'alias a="$X"',
    "alias a='$X'",
    'enable -f "$X" a',
    'hash -p "$X" ls',
    "$\\\nX",
    "echo $[X+1]",
    "echo $[ $X ]",
    '"$(printenv X)"',
    "printenv X | sh",
    "[[ -v a[X] ]]",
    "time [[ $X -gt 3 ]]",
    "echo $'a\\'b' ; $X ; echo '",
    'uv run "$X"',
    'uv run --unknown a "$X"',
    'sudo --user a "$X"',
    'sudo --unknown a "$X"',
    'timeout --signal KILL 5 "$X"',
    'timeout --kill-after 5 10 "$X"',
    'timeout -fk 5 10 "$X"',
    'nice --adjustment 5 "$X"',
    'ionice --class 2 "$X"',
    'flock --timeout 5 /l "$X"',
    'flock /l -c "$X"',
    'chroot --userspec a /x "$X"',
    'setpriv --reuid 5 "$X"',
    'nsenter -t 1 sh -c "$X"',
    'systemd-run -p a "$X"',
    'chrt -f 5 "$X"',
    'su app -c "$X"',
    "su app -c '$X'",
    'runuser app -c "$X"',
    'runuser -u app "$X"',
    'gosu app "$X"',
    'su-exec app "$X"',
    'taskset -c 0 "$X"',
    'numactl -N 0 "$X"',
    'parallel "$X"',
    'parallel ::: "$X"',
    'echo "$X" | parallel -j 4',
    "find . -exec $X {} \\;",
    'find . -name a -exec sh -c "$X" \\;',
    "find \"$X\" -exec sh -c 'cat {}' \\;",
    "find . -name $X",
    'awk "{ print $X }" file',
    'awk -F , "$X" file',
    'Rscript -e "$X"',
    'pwsh -c "$X"',
    'pwsh -Command echo "$X"',
    'docker run img sh -c "$X"',
    "docker run --rm img bash -lc 'eval $X'",
    'docker run img python3 -c "$X"',
    'kubectl exec p -- sh -c "$X"',
    'kubectl exec p -- "$X"',
    'env - "$X"',
    'sh -ce "$X"',
    'deno run "$X"',
    'ssh host ls "$X"',
    'watch ls "$X"',
)
HARMLESS_TEXTS: Final = (
    'echo "$X"',
    "sudo -u; echo $X",  # an option whose value is missing
    "env -u | cat $X",
    'case "$X" in\n $X|b) echo;;\n (c) ls;;\n *) exit 1;;\nesac; ls $X',
    "cat <<END\n$X\nEND\necho",
    "cat <<'END' > a\n$X rest\nEND\n",
    "[[ $X == a && $X != b ]] && echo",
    "[[ $X =~ ^(a|b)$ ]] || exit 1",
    '[ "$X" = a ] || exit 1',
    "for f in $X; do echo $f; done",
    './run.sh "$X" 2>&1 | tee log',
    'if [ -n "$X" ]; then echo $X; fi',
    'timeout "$X" ./run',
    'timeout 5 curl "$X"',
    "python3 run.py --day $X",
    'python3 -c "import sys" "$X"',
    'bash -c \'echo "$1"\' _ "$X"',
    'cd "$X" && ls',
    'cd "$X" && /srv/run.sh',
    'y=$(wc -l < "$X"); echo $y',
    "(( 2 > 1 )) && echo $X",
    "n=1; echo $((n + 1)) $X",
    'test "$X" = yes',
    '[ "$X" -gt 3 ] && echo',
    '[[ "$X" == yes ]]',
    '[ "$X" = a -o "$X" = b ]',
    '[ -n "$X" -a 1 -lt 2 ]',
    "echo ${X:0:8} ${X%.csv} ${X//a/b}",
    'python script.py "$X"',
    'command -v "$X"',
    'command -V "$X" > log',
    'echo "$X" | while read -r line; do echo "$line"; done',
    'echo "$X" | xargs rm --',
    'echo "$X" | xargs',
    'echo "$X" | xargs sh -c \'echo "$1"\' _',
    'log() { echo "$1" >&2; }; log "$X"',
    "export A=$X B=1; local c=$X",
    "declare -i n=0; n=1; echo $n $X",
    "echo \"$X\" | psql; python3 - <<'END'\nprint(1)\nEND",
    'A=(a $X); echo "${A[@]}"',
    "# $X\necho",
    'retry() { curl "$@" || curl "$@"; }; retry "$X"',
    'cat "$X" | sort | uniq',
    'psql -c "$X"',
    'echo "$X" | psql',
    "IFS=$'\\n'; echo $'a\\tb' $X",
    "[[ -v X ]] && echo",
    'uv run --with a python run.py "$X"',
    'npx -y tool "$X"',
    "printenv X | sort",
    'sudo --user app -n ./run "$X"',
    'timeout --signal KILL 5 ./run "$X"',
    'gosu app ./run "$X"',
    'runuser -u app -- ./run "$X"',
    'nice -10 ./run "$X"',
    'awk -F, -v day="$X" \'$1 == day { print }\' "$X"',
    'find "$X" -name "$X" -exec rm {} +',
    'docker run --rm -e DAY="$X" img ./run "$X"',
    'kubectl exec p -- ./run "$X"',
    'bash -euo pipefail run.sh "$X"',
    'python3 -u run.py "$X"',
    'pwsh -NoProfile -File run.ps1 "$X"',
    "perl -ne 'print' -- \"$X\"",
    'ssh "u@$X" uptime',
    'ssh -- "$X" uptime',
    'sudo -u app ./run "$X"',
    'env DAY=$(date) DAY2="$X" ./run',
    "echo done; echo $X > $X",
    'echo "a" >$X\nls',
    "python3 - \"$X\" <<'END'\nprint(1)\nEND",
    "x=1; x+=$X; echo",
    "echo ${X:-$(date)} ${#X}",
    "test -f a && \\\n echo $X",
    'eval "$(ssh-agent)"',
    "trap 'rm -f \"$X\"' EXIT",
    "curl $X &> log; ls",
    'nice -n "$X" ./run',
    'xargs -n "$X" ls',
    "perl -e 'print' -- \"$X\"",
    "node run.js $X",
    "$HOME/bin/run $X",
    'sed "s/a/$X/" file',
    "git log --since=$X",
)
_STEP: Final = "params: {X: a}\nsteps:\n  - "
FLOWS: Final = {
    "working_dir": _STEP + "{command: [./run.sh], working_dir: '${X}'}",
    "working_dir in a template": _STEP + "{command: ls, working_dir: '/srv/{{ params.X }}'}",
    "working_dir of the flow": "working_dir: $X\n" + _STEP + "./run.sh",
    "working_dir by a variable": "env: {D: '/a/${X}'}\nworking_dir: $D\n" + _STEP + "./run.sh",
    "working_dir by an output": (
        "steps:\n  - {name: a, command: ls, output: D}\n  - {command: ls, working_dir: $D}"
    ),
    "working_dir by the output of a handler": (
        "handler_on: {init: {command: ls, output: D}}\nsteps: [{command: ls, working_dir: $D}]"
    ),
    "working_dir by the name of a schedule": (
        "steps: [{command: ./run.sh, working_dir: '/srv/{{ schedule.name }}'}]"
    ),
    "dir": _STEP + "{run: ./run.sh, dir: $X}",
    "command": _STEP + "{command: ['${X}', a]}",
    "command as text": _STEP + "{command: '${X} a'}",
    "command through env": _STEP + "{command: [env, 'PATH=${X}', run]}",
    "command of a shell": _STEP + "{command: [sh, -c, 'echo ${X}']}",
    "command with arguments for a shell": _STEP + "{command: [sh, -c, '\"$@\"', sh, '${X}']}",
    "command of an interpreter": _STEP + "{command: [python3, '${X}']}",
    "command with a template": _STEP + "{command: [bash, '{{ params.X }}']}",
    "run": _STEP + "{run: $X}",
    "run as a list": _STEP + "{run: [ls, '$X']}",
    "run of a template": _STEP + "{run: '{{ params.X }} a'}",
    "run of a part": _STEP + "{run: '${X.program} a'}",
    "run by its place": "params: a b\nsteps: ['$1']",
    "script": _STEP + '{script: "ls\\n$X\\n"}',
    "exec": _STEP + "{exec: {command: $X}}",
    "args of exec": _STEP + "{exec: {command: timeout, args: ['5', $X]}}",
    "shell": _STEP + "{run: ls, shell: '$X/bash'}",
    "shell of the flow": "shell: '{{ params.X }}/sh'\n" + _STEP + "ls",
    "shell of run": _STEP + "{run: ls, with: {shell: '${X}/bash'}}",
    "interpreter of a script": _STEP + "{command: '$X/python3', script: 'a'}",
    "first line of a script": _STEP + '{script: "#!$X/python3\\na"}',
    "env PATH": "env: {PATH: '${X}:/bin'}\n" + _STEP + "ls",
    "env LD_PRELOAD of a step": _STEP + "{run: ls, env: {LD_PRELOAD: $X}}",
    "env BASH_ENV through another": "env: [A: $X, BASH_ENV: $A]\n" + _STEP + "ls",
    "env PYTHONPATH as a list": _STEP + "{run: ls, env: ['PYTHONPATH={{ params.X }}']}",
    "env HOME": "env: {HOME: /home/$X}\n" + _STEP + "ls",
    "a command in env": "env: {A: '`$X`'}\n" + _STEP + "ls",
    "a command in env with a shell": "env: {A: '`sh -c \"$X\"`'}\n" + _STEP + "ls",
    "a command in env with a template": "env: {A: '`echo {{ params.X }}`'}\n" + _STEP + "ls",
    "a command in env for PATH": "env: {PATH: '`echo $X`'}\n" + _STEP + "ls",
    "what a command prints as a program": _STEP.replace(
        "\nsteps", "\nenv: [{Y: '`printenv X`'}, {Z: '`$Y`'}]\nsteps"
    )
    + "ls",
    "what a command prints as a directory": "env: {Y: '`printenv X`'}\nworking_dir: $Y\n"
    + _STEP
    + "ls",
    "PATH of a variable with the name of a param": "env: [{X: /a}, {PATH: '$X:/bin'}]\n"
    + _STEP
    + "ls",
    "a command in params": "params: [{X: a}, {Y: '`$X`'}]\nsteps: [ls]",
    "a computed value as a directory": (
        "env: {A: '`echo $X`'}\nworking_dir: '${A}'\n" + _STEP + "ls"
    ),
    "params called PATH": "params: {PATH: a}\nsteps: [ls]",
    "params called HOME": "params: {HOME: a}\nsteps: [ls]",
    "an output LD_PRELOAD": "steps: [{run: ls, output: LD_PRELOAD}]",
    "call": _STEP + "{call: '${X}'}",
    "action": _STEP + "{action: dag.run, with: {dag: '{{ params.X }}'}}",
    "task": _STEP + "{task: '{{ params.X }}'}",
    "http": _STEP + "{http: {url: 'https://${X}/a'}}",
    "http by the name of a schedule": "steps: [{http: {url: 'https://{{ schedule.name }}.de/'}}]",
    "executor": _STEP + "{executor: {type: http, config: {url: 'https://${X}/a'}}}",
    "event": _STEP + "{event: {topic: '${X}'}}",
    "preconditions": _STEP + "{run: ls, preconditions: ['$X']}",
    "preconditions with a value": (
        _STEP + "{run: ls, preconditions: [{condition: '`$X`', expected: a}]}"
    ),
    "repeat_policy": (_STEP + "{run: ls, repeat_policy: {condition: '`$X`', expected: a}}"),
    "preconditions of the flow": "preconditions: ['test a && $X']\n" + _STEP + "ls",
    "handler_on": "handler_on: {exit: '$X'}\n" + _STEP + "ls",
    "worker_selector": _STEP + "{run: ls, worker_selector: {gpu: $X}}",
    "worker_selector of the flow": "worker_selector: ['gpu=${X}']\n" + _STEP + "ls",
    "queue": "queue: $X\n" + _STEP + "ls",
    "dotenv": "dotenv: $X\n" + _STEP + "ls",
    "container image": _STEP + "{run: ls, container: {image: '$X'}}",
    "container by name": _STEP + "{run: ls, container: '${X}'}",
    "container volumes": _STEP + "{run: ls, container: {image: a, volumes: ['$X:/a']}}",
    "container of the flow": "container: {image: 'a:${X}'}\n" + _STEP + "ls",
    "container that runs a value": _STEP + "{run: '$X a', container: {image: a}}",
    "container with a shell for a value": (
        _STEP + "{run: '$X', container: {image: a, shell: [sh, -c]}}"
    ),
    "docker": _STEP + "{action: docker.run, with: {image: '${params.X}', command: ls}}",
    "smtp": "smtp: {host: '$X'}\n" + _STEP + "ls",
    "stdout": _STEP + "{run: ls, stdout: 'a/${X}'}",
    "stderr": _STEP + "{run: ls, stderr: '${params.X}'}",
    "shell_args": _STEP + "{run: ls, shell_args: ['$X']}",
    "defaults": "defaults: {env: {LD_PRELOAD: $X}}\n" + _STEP + "ls",
    "secrets": "secrets: [{name: LD_PRELOAD, provider: env, key: A}]\nsteps: [ls]",
    "a scoped param as a program": _STEP + "{run: '${params.X} a'}",
    "a scoped param in single quotes for a shell": _STEP + "{run: \"sh -c 'echo ${params.X}'\"}",
    "a scoped variable as a program": "env: {A: '$X'}\n" + _STEP + "{run: '${env.A} a'}",
    "mail to a value": _STEP + "{action: mail.send, with: {to: '$X'}}",
    "error_mail to a value": "mail_on: {failure: true}\nerror_mail: {to: '$X'}\n" + _STEP + "ls",
    "info_mail to a value": "mail_on: {success: true}\ninfo_mail: {to: ['$X']}\n" + _STEP + "ls",
    "a file of jq": _STEP + "{action: jq.filter, with: {filter: ., input: '$X'}}",
}
HARMLESS_FLOWS: Final = (
    "env: {D: /srv}\nworking_dir: $D/a\n" + _STEP + "./run.sh $X",
    _STEP + "{command: ls, env: {X: /fixed}, working_dir: $X}",
    _STEP + "{command: ls, working_dir: '/data/{{ due_at | time }}'}",
    "env: {PATH: '/opt/bin:${PATH}', A: $X}\n" + _STEP + "ls $A",
    _STEP + "{command: [./load, '${X}'], preconditions: ['test -n \"$X\"']}",
    _STEP + "{http: {url: 'https://example.com/${X}'}}",
    _STEP + "{call: other, params: {A: $X}}",
    _STEP + "{run: 'case $X in a) ./a;; *) ./b;; esac'}",
)

REFUSED_SETTINGS: Final = (
    "plugin.library.paths",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.principal",
    "sasl.kerberos.keytab",
    "ssl.engine.location",
    "ssl.providers",
    "ssl.ca.location",
    "ssl.key.location",
    "ssl.certificate.location",
    "ssl.keystore.location",
    "ssl.crl.location",
    "https.ca.location",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.metadata.authentication.type",
    "enable.sasl.oauthbearer.unsecure.jwt",
    "enable.idempotence",
    "enable.gapless.guarantee",
    "bootstrap.servers",
    "metadata.broker.list",
    "transactional.id",
    "debug",
    "log_level",
    "statistics.interval.ms",
    "test.mock.num.brokers",
    "error_cb",
    "oauth_cb",
    "stats_cb",
    "on_delivery",
    "sasl.oauthbearer.method",
    "sasl.mechanisms",
    "security.protocol",
    "sasl.oauthbearer.token.endpoint.url",
)
"""Settings of Kafka that are refused with the value x."""
HOSTILE_SETTINGS: Final = {
    "sasl.oauthbearer.token.endpoint.url": "https://attacker.example/token",
    "security.protocol": "sasl_plaintext",
    "sasl.mechanisms": "PLAIN",
    "enable.ssl.certificate.verification": False,
    "ssl.endpoint.identification.algorithm": "none",
    "ssl.ca.pem": "attacker",
}
"""Settings that would send a kept secret elsewhere, or show it on the way."""
KAFKA: Final = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.client.secret": "hunter2",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
}
SILENT: Final = 120.0
"""Seconds."""


def is_refused(text: str) -> bool:
    """Whether text for a shell is refused because X would choose what runs."""
    try:
        refuse_shell_text(text, lambda name: name == "X")
    except Chosen:
        return True
    return False


def run(rounds: int, seed: int = 0) -> dict[str, int]:
    """Mixtures of harmless texts with at most one hostile one between them: each must be refused
    exactly when it has that one. Returns how many were of each kind; raises AssertionError."""
    random_ = random.Random(seed)
    counts = {"refused": 0, "taken": 0}
    for _ in range(rounds):
        parts = random_.sample([text for text in HARMLESS_TEXTS if "$X;" not in text], 2)
        is_hostile = random_.random() < 0.5
        if is_hostile:
            parts.insert(random_.randrange(3), random_.choice(TEXTS))
        text = "\n".join(part if random_.random() < 0.5 else f"(\n{part}\n)" for part in parts)
        assert is_refused(text) or not is_hostile, text
        counts["refused" if is_hostile else "taken"] += 1
    return counts | {"garbage": _garbage(rounds, random_)}


def knock(base_url: str, tokens: Mapping[str, str]) -> dict[str, int]:
    """Try what an admin of a namespace could send a server: settings of sinks, kept secrets to
    other endpoints, flows in which values choose what runs. Returns how many were refused; raises
    AssertionError for one that was not."""
    headers = {"Authorization": f"Bearer {tokens['admin']}"}
    place = "events/consumers/attack"
    with httpx2.Client(base_url=f"{base_url}/api/v1", headers=headers, timeout=SILENT) as client:

        def put(config: dict[str, Any], servers: str = "k.example:9092") -> int:
            options = {"servers": servers, "config": config}
            return client.put(place, json={"kind": "kafka", "options": options}).status_code

        for setting in REFUSED_SETTINGS:
            assert put({setting: "x"}) == 422, setting
        assert put(KAFKA) == 200
        hidden = KAFKA | {"sasl.oauthbearer.client.secret": "***"}
        assert put(hidden) == 200
        for setting, value in HOSTILE_SETTINGS.items():
            assert put(hidden | {setting: value}) == 422, setting
        assert put(hidden, "k.example:9092,attacker.example:9092") == 422
        assert put(hidden, "attacker.example:9092") == 422
        assert client.delete(place).status_code == 204
        for name, source in FLOWS.items():
            answer = client.post("flows/validate", json={"source": source})
            assert answer.status_code == 200, (name, answer.text)
            assert answer.json()["problems"], name
    return {
        "settings refused": len(REFUSED_SETTINGS),
        "kept secrets refused elsewhere": len(HOSTILE_SETTINGS) + 2,
        "flows refused": len(FLOWS),
    }


def _garbage(rounds: int, random_: random.Random) -> int:
    """No text, however broken, makes the reader fail or run for ever."""
    signs = [
        "$X",
        "$(",
        ")",
        "`",
        '"',
        "'",
        "<<A",
        "\n",
        "case",
        "in",
        "esac",
        "[[",
        "]]",
        "((",
        "|",
    ]
    signs += [
        " ",
        ";",
        ";;",
        "\\",
        "${",
        "}",
        "{",
        "=(",
        "<(",
        "#",
        "A=",
        "do",
        "fi",
        "&",
        ">",
        "sh",
    ]
    for _ in range(rounds):
        text = "".join(random_.choice(signs) for _ in range(random_.randrange(60)))
        try:
            refuse_shell_text(text, lambda name: name == "X")
        except Invalid:
            continue
    return rounds
