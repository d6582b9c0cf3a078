/** For bash 3.2 and later, without the bash-completion package. */
import {
  firstWords,
  groups,
  offerOfArgument,
  offerOfFlag,
  secondWords,
  spellings,
  type Commands,
  type Offer,
} from './offers.ts';

export function bash(commands: Commands): string {
  const first = reply({ kind: 'words', words: firstWords(commands).map(([word]) => word) });
  return `# bash completion for svc, made by \`svc completion bash\`.

_svc_listed() {
  local IFS=$' \\t\\n' name
  svc "$1" list 2>/dev/null | { read -r _; while read -r name _; do printf '%s\\n' "$name"; done; }
}

_svc() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} command='' word i
  local -i arguments=0 skip=0
  local IFS=$'\\n'
  COMPREPLY=()
  # bash splits --flag=value at the equals sign.
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $previous == '=' ]]; then
    previous=\${COMP_WORDS[COMP_CWORD-2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    if ((skip)); then
      [[ $word == '=' ]] || skip=0
      continue
    fi
    case "$word" in
      -?*)
        case "$command $word" in
${patterns(commands, () => 'skip=1')}
        esac
        continue ;;
    esac
    case "$command" in
      '' | ${groups.join(' | ')}) command="\${command:+$command }$word" ;;
      *) arguments+=1 ;;
    esac
  done

  case "$command $previous" in
${patterns(commands, (offer) => `${reply(offer)}; return`)}
  esac
  if [[ $current == -* ]]; then
    case "$command" in
${commands.map(([name, { flags }]) => `      ${quote(name)}) ${reply({ kind: 'words', words: [...Object.entries(flags).flatMap(([flag, facts]) => spellings(flag, facts)), '--help'] })} ;;`).join('\n')}
      *) ${reply({ kind: 'words', words: ['--help', '--version'] })} ;;
    esac
    return
  fi
  case "$command $arguments" in
    ' 0') ${first} ;;
    'help 0') ${first} ;;
${groups.map((group) => `    ${quote(`${group} 0`)}) ${reply({ kind: 'words', words: secondWords(commands, group).map(([word]) => word) })} ;;`).join('\n')}
${commands.flatMap(([name, command]) => (command.arguments ?? []).map((argument, index) => `    ${quote(`${name} ${String(index)}`)}) ${reply(offerOfArgument(argument))} ;;`)).join('\n')}
  esac
}

complete -F _svc svc
`;
}

/** Appends a slash to directories; bash 3.2 has no compopt. */
const FILES = 'compopt -o filenames 2>/dev/null; ';

/** Returns a case for each flag that takes a value. */
function patterns(commands: Commands, act: (offer: Offer) => string): string {
  return commands
    .flatMap(([name, { flags }]) =>
      Object.entries(flags).flatMap(([flag, facts]) => {
        const offer = offerOfFlag(facts);
        if (offer === undefined) return [];
        return [
          `          ${spellings(flag, facts)
            .map((spelled) => quote(`${name} ${spelled}`))
            .join(' | ')}) ${act(offer)} ;;`,
        ];
      }),
    )
    .join('\n');
}

function reply(offer: Offer): string {
  switch (offer.kind) {
    case 'words':
      return generated(`-W ${quote(offer.words.join('\n'))}`);
    case 'listed':
      return `${offer.orFile ? FILES : ''}${generated(`${offer.orFile ? '-f ' : ''}-W "$(_svc_listed ${offer.by})"`)}`;
    case 'file':
      return FILES + generated('-f');
    case 'nothing':
      return ':';
  }
}

function generated(options: string): string {
  return `COMPREPLY=($(compgen ${options} -- "$current"))`;
}

function quote(text: string): string {
  return text.includes('\n') ? `$'${text.replaceAll('\n', '\\n')}'` : `'${text}'`;
}
