/** For fish 3 and later. */
import { firstWords, groups, offerOfArgument, offerOfFlag, secondWords, type Commands, type Offer } from './offers.ts';

export function fish(commands: Commands): string {
  const lines = [
    ...firstWords(commands).map(([word, summary]) => complete(`_svc_at ''`, `-a ${quote(word)} -d ${quote(summary)}`)),
    ...groups.flatMap((group) =>
      secondWords(commands, group).map(([word, summary]) =>
        complete(`_svc_at ${quote(group)}`, `-a ${quote(word)} -d ${quote(summary)}`),
      ),
    ),
    complete('true', `-s h -l help -d ${quote('show help')}`),
    complete(`_svc_at ''`, `-s v -l version -d ${quote('show the version')}`),
    ...commands.flatMap(([name, command]) => [
      ...(command.arguments ?? []).map((argument) =>
        complete(`_svc_in ${quote(name)}`, value(offerOfArgument(argument)) ?? ''),
      ),
      ...Object.entries(command.flags).map(([flag, facts]) => {
        const offer = offerOfFlag(facts);
        const short = facts.short === undefined ? '' : `-s ${facts.short} `;
        const values = offer === undefined ? '' : ` ${needsValue(offer)} ${value(offer) ?? ''}`;
        return complete(`_svc_in ${quote(name)}`, `${short}-l ${flag} -d ${quote(facts.summary)}${values}`);
      }),
    ]),
  ];
  return `# fish completion for svc, made by \`svc completion fish\`.

function _svc_words
    commandline -opc | string match -v -- '-*' | tail -n +2
end

# True if the words so far are exactly these.
function _svc_at
    set -l words (_svc_words)
    test "$words" = "$argv"
end

# True if the words so far begin with these.
function _svc_in
    set -l words (_svc_words)
    string match -q -- "$argv *" "$words "
end

function _svc_listed
    svc $argv list 2>/dev/null | tail -n +2 | string replace -r ' .*' ''
end

complete -c svc -f
${lines.filter((line) => line !== '').join('\n')}
`;
}

function complete(when: string, what: string): string {
  return what.trim() === '' ? '' : `complete -c svc -n ${quote(when)} ${what.trimEnd()}`;
}

/** `-x` also disables file completion. */
function needsValue(offer: Offer): string {
  return offer.kind === 'file' || (offer.kind === 'listed' && offer.orFile) ? '-r' : '-x';
}

function value(offer: Offer): string | undefined {
  switch (offer.kind) {
    case 'words':
      return `-a ${quote(offer.words.join(' '))}`;
    case 'listed':
      return `${offer.orFile ? '-F ' : ''}-a ${quote(`(_svc_listed ${offer.by})`)}`;
    case 'file':
      return '-F';
    case 'nothing':
      return undefined;
  }
}

function quote(text: string): string {
  return `'${text.replace(/['\\]/g, '\\$&')}'`;
}
