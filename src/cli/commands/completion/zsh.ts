/** For zsh 5 with compinit; the file may be `_svc` in $fpath, or be sourced. */
import type { Flag, Spec } from '../../spec.ts';
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

export function zsh(commands: Commands): string {
  return `#compdef svc
# zsh completion for svc, made by \`svc completion zsh\`.

_svc_listed() {
  local -a names
  names=(\${\${(f)"$(svc $1 list 2>/dev/null)"}[2,-1]%% *})
  compadd -a names
}

_svc() {
  local curcontext="$curcontext" state line
  typeset -A opt_args
  _arguments -C '(-h --help)'{-h,--help}'[show help]' '(-v --version)'{-v,--version}'[show the version]' '1: :->command' '*:: :->rest' && return
  case $state in
    command)
      local -a words_first=(${described(firstWords(commands))})
      _describe -t commands command words_first ;;
    rest)
      case $line[1] in
${commands
  .filter(([name]) => !name.includes(' '))
  .map(([name, command]) => `        ${name}) ${argumentsOf(command)} ;;`)
  .join('\n')}
${groups.map((group) => groupCase(commands, group)).join('\n')}
        help)
          local -a words_help=(${described(firstWords(commands))})
          _describe -t commands command words_help ;;
      esac ;;
  esac
}

if [[ $funcstack[1] == _svc ]]; then
  _svc "$@"
else
  compdef _svc svc
fi
`;
}

function groupCase(commands: Commands, group: string): string {
  const members = commands.filter(([name]) => name.startsWith(`${group} `));
  return `        ${group})
          _arguments -C '1: :->second' '*:: :->rest' && return
          case $state in
            second)
              local -a words_second=(${described(secondWords(commands, group))})
              _describe -t commands command words_second ;;
            rest)
              case $line[1] in
${members.map(([name, command]) => `                ${name.slice(group.length + 1)}) ${argumentsOf(command)} ;;`).join('\n')}
              esac ;;
          esac ;;`;
}

function argumentsOf(command: Spec): string {
  const flags = Object.entries(command.flags).map(([name, flag]) => flagSpec(name, flag));
  const positionals = (command.arguments ?? []).map((argument, index) =>
    quote(
      `${argument.repeated === true ? '*' : String(index + 1)}:${escape(argument.name)}:${action(offerOfArgument(argument))}`,
    ),
  );
  return ['_arguments', `'(-h --help)'{-h,--help}'[show help]'`, ...flags, ...positionals].join(' ');
}

function flagSpec(name: string, flag: Flag): string {
  const offer = offerOfFlag(flag);
  const names = spellings(name, flag);
  const value = offer === undefined ? '' : `:${escape('value' in flag ? flag.value : name)}:${action(offer)}`;
  // A repeatable flag stays on offer; any other is offered once, in either spelling.
  const before = flag.kind === 'strings' ? '*' : `(${names.join(' ')})`;
  const equals = (spelled: string): string =>
    offer !== undefined && spelled.startsWith('--') ? `${spelled}=` : spelled;
  const rest = `[${escape(flag.summary)}]${value}`;
  return names.map((spelled) => quote(`${before}${equals(spelled)}${rest}`)).join(' ');
}

function action(offer: Offer): string {
  switch (offer.kind) {
    case 'words':
      return `(${offer.words.join(' ')})`;
    case 'listed':
      return offer.orFile ? `{ _svc_listed ${offer.by}; _files }` : `{ _svc_listed ${offer.by} }`;
    case 'file':
      return '_files';
    case 'nothing':
      // An empty action would print a message, and zsh would then list a flag instead of completing it.
      return '{ false }';
  }
}

function described(words: readonly (readonly [string, string])[]): string {
  return words.map(([word, summary]) => quote(`${escape(word)}:${summary}`)).join(' ');
}

/** Escapes colons and brackets, which are special in _arguments specifications. */
function escape(text: string): string {
  return text.replace(/[:[\]\\]/g, '\\$&');
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
