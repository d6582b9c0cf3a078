/** Scrolls with an answer that grows, unless the reader has scrolled up. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from '../parts/icon.tsx';

/** Distance from the end that still counts as the end. */
const NEAR_PX = 48;

export function StickyScroll({ children }: { readonly children: ComponentChildren }): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const lastTop = useRef(0);
  const [isAway, setAway] = useState(false);

  const toEnd = (): void => frame.current?.scrollTo({ top: frame.current.scrollHeight });
  const onScroll = (): void => {
    const { scrollTop, clientHeight, scrollHeight } = frame.current ?? document.body;
    // An answer that has grown since the last scroll is no reader who scrolled up.
    if (scrollTop + clientHeight >= scrollHeight - NEAR_PX) isAtEnd.current = true;
    else if (scrollTop < lastTop.current) isAtEnd.current = false;
    lastTop.current = scrollTop;
    setAway(!isAtEnd.current);
  };
  useEffect(() => {
    if (content.current === null || frame.current === null) return;
    const observer = new ResizeObserver(() => {
      if (isAtEnd.current) toEnd();
    });
    observer.observe(content.current);
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);

  return (
    <div class="scroll-place">
      <div class="scroll" ref={frame} onScroll={onScroll} tabIndex={0} role="region" aria-label="Messages">
        <div ref={content}>{children}</div>
      </div>
      {isAway && (
        <button type="button" class="round to-end" aria-label="To the end" onClick={toEnd}>
          <Icon name="down" />
        </button>
      )}
    </div>
  );
}
